"""The answers of `das tune` as tables: margins, sizes, suppression, bias, privacy loss and the trade-off curve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from flows.reports.figures import near, up
from privacy.accounting.composition import read_spend
from privacy.analyses.tuning import CELLS
from tasks.detailed_dhca.details import AGES_NAMES, DETAILS, TABLE_NAMES, WIDTHS
from tasks.pages.text_table import TextTable

MARGINS = {
    "total_only": "TotalOnly total",
    "step_1": "step 1 total",
    "count": "count of step 2",
    **{f"total_at_{name}": f"total of {AGES_NAMES[name]}" for name in ("age4", "age9", "age23")},
}
if {name: cells for name, cells in zip(DETAILS, WIDTHS.tolist(), strict=True) if name in TABLE_NAMES} != CELLS:
    raise ValueError(f"privacy.analyses.tuning has the cells {CELLS}, and not those of tasks/detailed_dhca/details.py")
AT = ("0", "T/2", "T", "3T/2", "2T")


def tables(answers: Mapping[str, Any]) -> list[TextTable]:
    """Return the tables of a plan's answers."""
    measured = [level for level in answers["levels"] if level["on"]]
    shown = [make(answers, measured) for make in (_margins, _estimates, _sizes)]
    shown = [*shown, *_suppression(measured), _loss(answers)]
    return [*shown, *(_curve(answers, stability) for stability in answers["trade_off"])]


def _margins(answers: Mapping[str, Any], measured: Iterable[Mapping[str, Any]]) -> TextTable:
    columns = ["level", answers["unit"], "stability", *MARGINS.values(), "count of step 2, recipe"]
    rows = []
    for level in measured:
        figures = [str(level["margins"][name]) for name in MARGINS]
        budget = near(Fraction(level["budget"]))
        rows.append([level["level"], budget, str(level["stability"]), *figures, str(level["margin_by_recipe"])])
    notes = [
        "Exact, in counts. A count of step 2 is a total published alone or a sex-by-age cell. The total of 4, 9 or 23 "
        "ages is a sum of cells.",
        "recipe: floor(1.96 sigma), or eq. (35) of the comparison paper; it can be too small by one.",
    ]
    return TextTable(f"Margins of error at 95%: {answers['source']}", columns, rows, notes)


def _estimates(answers: Mapping[str, Any], measured: Iterable[Mapping[str, Any]]) -> TextTable:
    columns = [f"{name}, {kind}" for name in AGES_NAMES.values() for kind in ("count", "estimate")]
    rows = []
    for level in measured:
        counts = [level["margins"]["count"], *(level["margins"][f"total_at_{name}"] for name in list(TABLE_NAMES)[1:])]
        pairs = zip(counts, level["margins_of_estimates"].values(), strict=True)
        rows.append([level["level"], *(str(margin) for pair in pairs for margin in pair)])
    notes = ["An estimate (das run --estimates) combines both noisy answers. Near a threshold its margin is wider."]
    if answers["unit"] == "epsilon" and Fraction(answers["gamma"]) > Fraction(1, 10):
        notes.append(
            "Under pure DP with a gamma above 0.1 a run may combine less, so that margins hold: see its manifest."
        )
    return TextTable("Margins of error of totals at 95%, as counts and as estimates", ["level", *columns], rows, notes)


def _sizes(answers: Mapping[str, Any], measured: Iterable[Mapping[str, Any]]) -> TextTable:
    relative = "relative" in answers["target"]
    target = Fraction(next(iter(answers["target"].values())))
    columns = ["level", *TABLE_NAMES.values(), "TotalOnly total", *([] if relative else [f"least {answers['unit']}"])]
    rows = []
    for level in measured:
        sizes = [level["sizes"][name] for name in (*TABLE_NAMES, "total_only")]
        need = [] if relative else [up(level["least_budget_for_target"], 6)]
        rows.append([level["level"], *("never" if size is None else f"{size:,}" for size in sizes), *need])
    if relative:
        title = f"Population from which the margin of error is at most {float(target):.4g} of the count"
        notes = ["In persons. A sex-by-age statistic counts as met when its average cell is (8, 18 or 46 cells)."]
    else:
        title = f"Population from which the margin of error is at most {target} counts"
        notes = [
            "All counts of a level have the same noise, so they meet the target at any size (0) or never. "
            "The last column is the least budget that meets it."
        ]
    return TextTable(title, columns, rows, notes)


def _suppression(measured: Iterable[Mapping[str, Any]]) -> list[TextTable]:
    chances, biases = [], []
    for level in (level for level in measured if level["suppressible"]):
        name, threshold = level["level"], str(level["threshold"])
        points = level["suppression"]
        chances.append([name, threshold, *(f"{point['suppressed']:.6f}" for point in points)])
        biases.append([name, threshold, *(f"{point['bias']:.3f}" for point in points)])
    if not chances:
        return []
    columns = [f"n = {at}" for at in AT]
    note = "Groups below the state with a total alone; n is the true size, T the threshold of eq. (12)."
    lean = "In counts: E[X | n + X > T], exact; the paper's eq. (13) is that of continuous noise."
    return [
        TextTable("Probability of suppression (Figure 1)", ["level", "T", *columns], chances, [note]),
        TextTable("Bias of a published total (Figure 2)", ["level", "T", *columns], biases, [lean]),
    ]


def _loss(answers: Mapping[str, Any]) -> TextTable:
    unit, zcdp = answers["unit"], answers["unit"] == "rho"
    at = f"epsilon at {answers['delta']:g}"
    columns = ["level", "is", unit, f"{unit} with it", f"{unit} without it"]
    columns += [f"{at}, with it", f"{at}, without it"] if zcdp else []
    rows = []
    for level in answers["levels"]:
        sides = [level["with_it"], level["without_it"]]
        budgets = [near(Fraction(side["budget"])) for side in sides]
        epsilons = [up(side["epsilon"]) for side in sides] if zcdp else []
        rows.append(
            [level["level"], "on" if level["on"] else "off", near(Fraction(level["budget"])), *budgets, *epsilons]
        )
    relations = read_spend(answers["spent"]).rows(answers["delta"])
    notes = [f"The release spends, for {row.sentence}, {row.words}." for row in relations]
    title = f"Privacy loss of the release with and without each level ({relations[0].sentence})"
    return TextTable(title, columns, rows, notes)


def _curve(answers: Mapping[str, Any], stability: int) -> TextTable:
    rows = [
        [near(Fraction(point["budget"])), *(f"{point['margins'][name]:,}" for name in MARGINS)]
        for point in answers["trade_off"][stability]
    ]
    title = f"Margins of error over the {answers['unit']} of a level, stability {stability}"
    return TextTable(title, [answers["unit"], *MARGINS.values()], rows)
