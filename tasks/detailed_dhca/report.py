"""report.html: a release on one page for a review board, with pictures; one file, offline.

It shows the content of the manifest: nothing that is not in the release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

from privacy.accounting.composition import Spend
from spine.settings import Jurisdiction
from tasks.detailed_dhca.details import AGES_NAMES, BY_AGE, CELLS_OF, FINEST, SHAPES, query_of
from tasks.detailed_dhca.run import DetailedRun
from tasks.inputs.names import title_of_states
from tasks.lifecycle.manifest import spend_of
from tasks.pages.dots import Series, dots
from tasks.pages.release_report import IN_WORDS, InShort
from tasks.pages.release_report import write_report as write_page
from tasks.pages.text_table import TextTable
from tasks.population_groups.levels import Level
from tasks.population_groups.manifest import names_of_states, notes_of_coterminous
from tasks.population_groups.noise import LevelQueries, load_queries

RELATIVE = (Fraction(1, 20), Fraction(1, 10), Fraction(1, 5))  # margins as shares of the count
DRAWN = Fraction(1, 10)  # of them, the one in the picture
MARKS = {"total": "circle", "age4": "ring", "age9": "square", "age23": "diamond"}


def write_report(run: DetailedRun, out: Path, manifest: dict[str, Any]) -> None:
    """Write OUT/report.html from the manifest's content."""
    jurisdiction: Jurisdiction = "pr" if manifest["region"] == "PR" else "us"
    levels = run.parameters.configuration.levels(jurisdiction)
    truth = "NOT_PRIVATE" in manifest
    states = names_of_states(run, jurisdiction)
    spend = spend_of(manifest)
    rows = [
        _row(level, manifest["levels"][str(level)], None if truth else load_queries(run, level), spend)
        | {"estimates": manifest.get("estimates", {}).get(str(level))}
        for level in levels
    ]
    where = title_of_states(states)
    write_page(
        "tasks.detailed_dhca",
        out,
        manifest,
        spend,
        f"Detailed DHC-A, {where}",
        _short(rows, where, manifest, truth=truth),
        states=states,
        where=where,
        rows=rows,
        shapes=AGES_NAMES,
        by_age=BY_AGE,
        cells_of=CELLS_OF,
        noise=None if truth else noise_chart(rows),
        sizes=None if truth else size_chart(rows),
        relative=[float(share) for share in RELATIVE],
    )


def _short(rows: Sequence[Mapping[str, Any]], where: str, manifest: Mapping[str, Any], *, truth: bool) -> InShort:
    """Return what was published, and by level the margin of a count and from which size a total is within a tenth."""
    published = [
        f"Persons of {where} by detailed race, ethnicity or tribe, and by sex and age where a group is large enough: "
        f"{sum(row['published'] for row in rows):,} groups of {sum(row['groups'] for row in rows):,} possible ones.",
        "No figure is published for a block.",
    ]
    if truth:
        return InShort(published, ["The counts are exact."])
    columns = [
        "level",
        "groups published",
        "a count, ±",
        f"a total with {AGES_NAMES[FINEST]}, ±",
        "left out up to",
        "within 10% from",
    ]
    shown = [
        [
            row["name"],
            f"{row['published']:,}",
            f"{row['margins']['total']:,}",
            f"{row['margins'][FINEST]:,}",
            "nothing" if row["suppressed_up_to"] is None else f"{row['suppressed_up_to']:,}",
            f"{row['sizes']['total'][RELATIVE.index(DRAWN)]:,}",
        ]
        for row in rows
    ]
    notes = [
        "Left out: a group of counties and smaller areas whose noisy total is no larger. Within 10%: the size from "
        "which the margin of a total that is published alone is at most a tenth of it.",
        *notes_of_coterminous(manifest),
    ]
    return InShort(published, [IN_WORDS, "All in persons:"], TextTable("In short", columns, shown, notes))


def _row(level: Level, facts: Mapping[str, Any], queries: LevelQueries | None, spend: Spend | None) -> dict[str, Any]:
    """Return a population group level: its groups, noise and published counts. Without noise, no margins."""
    published = facts["groups_published"]
    noise = facts.get("queries", {})
    budget = Fraction(noise["total_only"]["budget"]) if noise else Fraction(0)
    margins = (
        {name: queries.margin(query_of(SHAPES.index(name)), cells) for name, cells in CELLS_OF.items()}
        if queries
        else {}
    )
    starts = dict(zip(SHAPES, ((facts["suppressed_up_to"] or 0) + 1, *facts["thresholds"]), strict=True))
    return {
        "name": level.name,
        "regions": facts["regions"],
        "iterations": facts["iterations"],
        "groups": facts["groups"],
        "published": sum(published.values()),
        "by_shape": {name: published[name] for name in SHAPES}
        | {"total": published["total"] + published["total_only"]},
        "total_only": published["total_only"],
        "suppressed_up_to": facts["suppressed_up_to"],
        "thresholds": facts["thresholds"],
        "budget": float(budget),
        "part": float(budget / spend.charged) if spend else None,
        "stability": facts.get("stability"),
        "deviation": {query: law["variance"] ** 0.5 for query, law in noise.items()},
        "margins": margins,
        "step_1": queries.margin("stage_1") if queries else None,
        "sizes": {
            name: [max(ceil(margin / share), starts[name]) for share in RELATIVE] for name, margin in margins.items()
        },
    }


# -- pictures ---------------------------------------------------------------------------------------------------------


def noise_chart(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return each level's margins, the sizes at which its tables change, and that below which it suppresses."""
    series = {
        "margin of a published count": Series("circle", [row["margins"]["total"] for row in rows]),
        "margin of the first answer": Series("ring", [row["step_1"] for row in rows]),
        "suppressed up to": Series("bar", [row["suppressed_up_to"] for row in rows]),
    } | {
        f"{AGES_NAMES[name]} from": Series(mark, [row["thresholds"][place] for row in rows])
        for place, (name, mark) in enumerate(zip(BY_AGE, ("triangle", "box", "cross"), strict=True))
    }
    return dots(rows, series, "persons (a step to the right is ten times as many)")


def size_chart(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Draw the size from which a group's total has its table and a margin of at most a tenth of it."""
    place = RELATIVE.index(DRAWN)
    series = {
        f"as {AGES_NAMES[name]}": Series(MARKS[name], [row["sizes"][name][place] for row in rows]) for name in SHAPES
    }
    return dots(rows, series, "persons in the group (a step to the right is ten times as many)")
