"""`das compare`: the geometric mechanism and the discrete Gaussian, at the same margins of error."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from flows.reports.figures import delta_of, pair, share
from flows.reports.terminal import Format, FormatOption, report
from privacy.analyses.comparison_tables import TABLES, PrintedTable
from tasks.errors import Refused
from tasks.safetab.levels import named_level, one_jurisdiction


def compare(
    source: Annotated[
        Path | None,
        typer.Argument(metavar="SOURCE", help="A config.json or its directory, or a release or its manifest.json."),
    ] = None,
    target: Annotated[list[str] | None, typer.Option(help="`LEVEL=MARGIN`, in counts at 95%; may be repeated.")] = None,
    paper: Annotated[
        Literal["comparison", "production"] | None,
        typer.Option(help="The budgets of the comparison paper (Tables 1, 2 and 4) or of SafeTab-P (Table 7)."),
    ] = None,
    gamma: Annotated[str | None, typer.Option(help="The share of step 1, between 0 and 1.  [default: 0.1]")] = None,
    stability: Annotated[
        int | None, typer.Option(help="In how many groups of a level one record can be.  [default: 9]")
    ] = None,
    delta: Annotated[str, typer.Option(help="Strictly between 0 and 1.")] = "1e-10",
    form: FormatOption = Format.table,
) -> None:
    """Two mechanisms (not two releases or configurations): geometric and discrete Gaussian noise at the same margins.

    SafeTab[Geometric] and SafeTab[Discrete Gaussian], and their guarantees. For two configurations: das tune --against.
    The first line says which needs less. From margin targets: the budgets that meet them, as printed (if a paper has
    them), by the paper's recipe, and the least that provably does. From a configuration or a release: its margins, and
    the other mechanism's budgets for them. Then (epsilon, delta) by every analysis. Without arguments: the comparison
    paper's own tables.

    **Example:** `das compare --target "Nation, Detailed=3" --target "County, Detailed=11"`
    """
    from flows.reports.comparison import compare_settings, compare_targets
    from tasks.safetab.persons.level_budgets import read_settings

    at = delta_of(delta)
    if source is None:
        gamma_of = share("0.1" if gamma is None else gamma, "gamma")
        groups = 9 if stability is None else stability
        if groups < 1:
            raise Refused(f"stability is a whole number, 1 or more, not {groups}")
        data, tables = compare_targets(_targets(target, paper), gamma_of, groups, at)
    else:
        if target or paper or gamma is not None or stability is not None:
            raise Refused("a configuration has its own budgets, gamma and stability: give either it or targets")
        data, tables = compare_settings(read_settings(source), at)
    conclusions = [
        f"{each['region'].upper()}: {each['conclusion']}" if source else each["conclusion"]
        for each in data.get("regions", [data])
    ]
    report(data, tables, form, "\n".join(conclusions))


def _targets(texts: Sequence[str] | None, paper: str | None) -> PrintedTable:
    if not texts:
        return TABLES[paper or "comparison"]
    if paper is not None:
        raise Refused("give either --paper or --target")
    from flows.reports.comparison import LARGEST_MARGIN

    targets = {}
    for text in texts:
        name, margin = pair(text, "a target")
        if not margin.strip().isdecimal() or not 1 <= int(margin) <= LARGEST_MARGIN:
            raise Refused(f"a target margin is a whole number of counts, 1 to {LARGEST_MARGIN}, not {margin.strip()!r}")
        targets[named_level(name)] = int(margin)
    one_jurisdiction(targets)
    return PrintedTable("", {level.name: margin for level, margin in targets.items()}, {})
