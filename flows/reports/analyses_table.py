"""(epsilon, delta) of one or several sets of budgets by every analysis, as a table: Table 2 of the comparison paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flows.reports.figures import up
from privacy.analyses.comparison import Analysis
from privacy.analyses.loss_distributions import LARGEST_EPSILON, LEAST_DELTA
from privacy.noise.laws import Definition
from tasks.pages.text_table import TextTable

MECHANISMS: dict[Definition, str] = {"puredp": "geometric", "zcdp": "discrete Gaussian"}
_MARKS = {"paper": "*", "continuous": "~"}
NOTES = (
    "Rounded up. unbounded: one record added or removed; bounded: one replaced. order: the Rényi order (unbounded).",
    "* no bound: Lemma 8 integrates over the real line, but the law is on the integers, so it understates the loss.",
    "~ exact for continuous Gaussian noise; for the discrete one the bounds are the other rows.",
)
PLD = (
    "PLD: privacy-loss distributions (dp-accounting), rounded up. For the geometric law TotalOnly is the "
    "worst case of any mixture of groups; for the Gaussian no reading is proved to be."
)
NO_PLD = f"No privacy-loss distributions: floating point needs delta >= {LEAST_DELTA:g}, epsilon <= {LARGEST_EPSILON}."


def analyses_table(title: str, sets: Mapping[str, Sequence[Analysis]], printed: Mapping[str, str]) -> TextTable:
    """Return a row per analysis: the printed figure, then for each named set of budgets a figure per relation."""
    prefixes = [f"{name}, " if name else "" for name in sets]
    columns = ["analysis", *(["printed"] if printed else [])]
    columns += [f"{prefix}{relation}" for prefix in prefixes for relation in ("unbounded", "bounded")]
    rows = []
    for same in _by_analysis(sets):
        analysis = next(iter(same.values()))
        row = [f"{MECHANISMS[analysis.definition]}: {analysis.label}{_MARKS.get(analysis.standing, '')}"]
        row += [printed.get(analysis.name, "")] if printed else []
        for name in sets:
            row += [up(same[name].unbounded), up(same[name].bounded)] if name in same else ["", ""]
        rows.append([*row, "" if analysis.order is None else f"{analysis.order:.4g}"])
    with_pld = all(any(analysis.name.startswith("pld") for analysis in results) for results in sets.values())
    notes = [*NOTES, PLD if with_pld else NO_PLD, *(_saving(name, results) for name, results in sets.items())]
    return TextTable(title, [*columns, "order"], rows, notes)


def analyses_json(sets: Mapping[str, Sequence[Analysis]], printed: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the rows of `analyses_table` for `--json`."""
    plain = []
    for same in _by_analysis(sets):
        analysis = next(iter(same.values()))
        figures = {
            name: {"unbounded": one.unbounded, "bounded": one.bounded, "order": one.order} for name, one in same.items()
        }
        row = {
            "mechanism": analysis.definition,
            "analysis": analysis.name,
            "label": analysis.label,
            "standing": analysis.standing,
        }
        plain.append(
            row | ({"printed": printed[analysis.name]} if analysis.name in printed else {}) | {"figures": figures}
        )
    return plain


def _by_analysis(sets: Mapping[str, Sequence[Analysis]]) -> list[dict[str, Analysis]]:
    """Return the analyses by name of the set, one dictionary per kind of analysis."""
    rows: dict[tuple[str, str], dict[str, Analysis]] = {}
    for name, results in sets.items():
        for analysis in results:
            rows.setdefault((analysis.definition, analysis.name), {})[name] = analysis
    return list(rows.values())


def _saving(name: str, results: Sequence[Analysis]) -> str:
    """Return how the mechanisms compare by their sharpest bounds; of the two readings by PLD, by the larger."""
    sharpest = {}
    for definition in MECHANISMS:
        rows = [analysis for analysis in results if analysis.definition == definition]
        readings = [analysis.unbounded for analysis in rows if analysis.name.startswith("pld")]
        others = [
            analysis.unbounded for analysis in rows if analysis.is_epsilon_bound and not analysis.name.startswith("pld")
        ]
        sharpest[definition] = min([*others, max(readings)] if readings else others)
    ratio = sharpest["zcdp"] / sharpest["puredp"]
    budgets = f"With the {name} budgets" if name else "At these margins"
    side = "below" if ratio < 1 else "above"
    return f"{budgets} the discrete Gaussian's epsilon is {abs(1 - ratio):.1%} {side} the geometric one's."
