"""The tables of benchmarks/results/top-down.md, as Markdown, from what `das tda accuracy` wrote.

    python benchmarks/top_down_tables.py errors/ [--spine optimized --spine conventional]
    python benchmarks/top_down_tables.py errors/ --into benchmarks/results/top-down.md --mark ri

Without --into the tables are printed: the ratios of both estimators' errors, the errors by spine, the coverage of
the margins. With it they replace what stands between `<!-- MARK-ratios -->` and `<!-- /MARK-ratios -->`, and so on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
from measure import arguments

from tasks.top_down.accuracy.errors import LEVELS

LONG = "voting age by race"
SHOWN = ("total", LONG)
COVERED = ("total", "race", LONG)


def ratios(errors: pd.DataFrame, spines: Sequence[str]) -> Iterator[str]:
    """Of every level the errors of both estimators, total / voting age by race, and their ratio with its spread."""
    yield "| | entities | " + " | ".join(f"{spine}: topdown | gls | ratio" for spine in spines) + " |"
    yield "|---|--:|" + "--:|" * 3 * len(spines)
    for level, of in _by_level(errors):
        cells = []
        for spine in spines:
            here = of[of["spine"] == spine].set_index(["quantity", "estimator"])
            cells += [_pair(here, "mae", name) for name in ("topdown", "gls")]
            cells.append(f"{_pair(here, 'ratio', 'gls')}{_spread(here)}")
        yield f"| {LEVELS[level]} | {of['n'].iloc[0]:,} | " + " | ".join(cells) + " |"


def by_spine(errors: pd.DataFrame, spines: Sequence[str]) -> Iterator[str]:
    """Of every level the error of the program's estimator on each spine, total / voting age by race."""
    yield "| | entities | " + " | ".join(spines) + " |"
    yield "|---|--:|" + "--:|" * len(spines)
    for level, of in _by_level(errors):
        here = of.set_index(["spine", "quantity", "estimator"])
        cells = [_pair(here.loc[spine], "mae", "topdown") for spine in spines]
        yield f"| {LEVELS[level]} | {of['n'].iloc[0]:,} | " + " | ".join(cells) + " |"


def coverage(covered: pd.DataFrame, spines: Sequence[str]) -> Iterator[str]:
    """The share of counts within their margins: of entities that cut no block group."""
    yield (
        "| | n | mean s.e. | total, gls / topdown | race | voting age by race | unbiased total (mean square) | "
        "unbiased voting age by race |"
    )
    yield "|---|" + "--:|" * 7
    uncut = covered[covered["cut"] == 0]
    for spine in spines:
        for level in LEVELS:
            of = uncut[(uncut["spine"] == spine) & (uncut["level"] == level) & uncut["quantity"].isin(COVERED)]
            if {*COVERED} <= {*of["quantity"]}:
                here = of.set_index(["quantity", "estimator"])
                yield " | ".join(_covered(f"| {LEVELS[level]}, {spine}", here)) + " |"


def _covered(name: str, here: pd.DataFrame) -> Iterator[str]:
    yield name
    total = here.loc[("total", "gls")]
    yield f"{total['n']:,.0f}"
    yield f"{total['error']:.2f}"
    for quantity in COVERED:
        yield " / ".join(f"{100 * here.loc[(quantity, name), 'coverage']:.1f}" for name in ("gls", "topdown"))
    for quantity in SHOWN:
        of = here.loc[(quantity, "gls")]
        yield f"{100 * of['unbiased_coverage']:.1f} ({of['unbiased_square']:.2f})"


def _by_level(errors: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Persons, all sizes together, level by level."""
    whole = errors[(errors["product"] == "persons") & (errors["size"] == "all") & errors["quantity"].isin(SHOWN)]
    for level in LEVELS:
        if level in set(whole["level"]):
            yield level, whole[whole["level"] == level]


def _pair(here: pd.DataFrame, figure: str, estimator: str) -> str:
    """A figure of the total / of voting age by race."""
    return " / ".join(_short(float(here.loc[(quantity, estimator), figure]), figure) for quantity in SHOWN)


def _short(value: float, figure: str) -> str:
    if value != value:  # a ratio to no error
        return "–"
    return f"{value:.2f}" if figure == "ratio" else f"{value:.3g}"


def _spread(here: pd.DataFrame) -> str:
    spread = [float(here.loc[(quantity, "gls"), "ratio_sd"]) for quantity in SHOWN]
    if all(value != value for value in spread):  # one seed
        return ""
    return f" (± {' / '.join(_short(value, 'ratio') for value in spread)})"


def main() -> None:
    words = arguments(__doc__)
    words.add_argument("errors", type=Path)
    words.add_argument("--spine", action="append", help="only this spine; may be repeated")
    words.add_argument("--into", type=Path, help="the page whose tables are replaced")
    words.add_argument("--mark", help="of the tables in the page")
    given = words.parse_args()
    errors, covered = (pd.read_csv(given.errors / f"{name}.csv") for name in ("error", "coverage"))
    spines = given.spine or list(dict.fromkeys(errors["spine"]))
    tables = {
        "ratios": ratios(errors, spines),
        "errors": by_spine(errors, spines),
        "coverage": coverage(covered, spines),
    }
    if given.into is None:
        print("\n\n".join("\n".join(lines) for lines in tables.values()))
        return
    page = given.into.read_text()
    for name, lines in tables.items():
        mark = f"{given.mark}-{name}"
        inside = re.compile(f"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)", re.DOTALL)
        page = inside.sub(lambda found, lines=lines: found[1] + "\n".join(lines) + "\n" + found[2], page)
    given.into.write_text(page)


if __name__ == "__main__":
    main()
