"""The tables of predicted errors: with the shares of before, and as they were changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pandas import DataFrame

from flows.reports.figures import near
from privacy.noise.margins import Z95
from spine.allocations import Allocation
from tasks.releases.pages.text_table import TextTable
from tasks.releases.pages.words import level_title
from tasks.top_down.accuracy.forecast import EXACT, RunForecast, exact_errors
from tasks.top_down.input.block_run import TopDownRun

MODEL = (
    "Predicted from the shares and a stand-in for the records, which is published or made up: no measurement was taken "
    "and nothing is charged. Each is a mean of absolute errors."
)
NOT_CALIBRATED = "Uncalibrated: the model was compared with real runs of states under zCDP alone."
CALIBRATED = (
    "In trials on Rhode Island, at half to twice the budget of production, totals were within 15 %, races within 25 % "
    "of real runs, counties and AIAN areas aside: they are too few to compare. The known factor by which real runs "
    "differ is divided out (docs/top-down.md)."
)
OCCUPIED = (
    "Occupied units are measured with a budget of their own, --units-budget: neither shares of persons nor --solve "
    "change it."
)
TARGET = 0.95  # of the areas, in 2021


def answers(
    forecasts: Mapping[str, RunForecast],
    start: Mapping[str, Allocation],
    end: Mapping[str, Allocation],
) -> dict[str, Any]:
    """Return the predicted errors of each product by level and quantity, with two allocations."""
    found: dict[str, Any] = {"errors": [], "targets": [], "block_bias": [], "outside_trials": []}
    for product, forecast in forecasts.items():
        before, after = forecast.weights(start[product]), forecast.weights(end[product])
        first, second = forecast.mean_errors(before), forecast.mean_errors(after)
        found["errors"] += [
            {
                "product": product,
                "level": level,
                "quantity": quantity,
                "start": first[level, quantity],
                "error": error,
                "how": "model" if forecast.is_calibrated(level) else "uncalibrated",
            }
            for (level, quantity), error in second.items()
        ]
        if product == "persons":
            found["outside_trials"] = forecast.outside_trials(end[product])
            starts, ends = forecast.targets(before), forecast.targets(after)
            found["targets"] = [
                {"level": level, "areas": end.areas, "start": starts[level].share, "share": end.share}
                for level, end in ends.items()
            ]
            biases = forecast.block_bias(before), forecast.block_bias(after)
            found["block_bias"] = [
                {"size": size, "start": start, "bias": biases[1][size]} for size, start in biases[0].items()
            ]
    return found


def every_area(fewer: Iterable[tuple[str, int]], part: float) -> str:
    """Return a note on levels with so few areas that a share of them is all of them."""
    named = ", ".join(f"{level_title(level)} {areas}" for level, areas in fewer)
    return (
        f"{100 * part:g}% of so few areas is all of them: {named}. The expected share is the mean of the areas' own "
        "probabilities; that of one run is often smaller or larger: --check measures it."
    )


def conclusion(answered: Mapping[str, Any], start: Allocation, end: Allocation) -> str:
    """Return what the shares of persons buy, in sentences: the budget, the errors' change, and what --best reached."""
    budget = _arrow(near(float(start.budget)), near(float(end.budget)))
    sentences = [f"The budget of persons is {'rho' if end.definition == 'zcdp' else 'epsilon'} {budget}."]
    rows = [row for row in answered["errors"] if row["product"] == "persons" and row["start"] > 0]
    if end != start and rows:
        least, most = (by(row["error"] / row["start"] - 1 for row in rows) for by in (min, max))
        sentences.append(
            f"Predicted errors change by {least:+.0%} to {most:+.0%} against the budget and shares of {start.source}."
        )
    if spends := answered.get("spends"):
        sentences.append(
            f"A run without --us-level spends {spends['persons']} of it: the share of the US level is left."
        )
        sentences += [f"Units spend {spends['units']} more, whatever the shares of persons."] * ("units" in spends)
    if best := answered.get("best"):
        aims, limits = [row for row in best if row["aim"]], [row for row in best if row["limit"] is not None]
        passed = [f"{row['row']} {row['ratio']:.3f}" for row in limits if row["ratio"] > row["limit"]]
        met = [row for row in aims if row["ratio"] < 1]
        sentences.append(
            f"At an equal budget, the shares that --best found have smaller errors in {len(met)} of {len(aims)} aims "
            "than those that it began with."
        )
        sentences += [f"Limits passed: {'; '.join(passed)}." if passed else "Every limit is kept."] * bool(limits)
    return " ".join(sentences)


def tables(answered: Mapping[str, Any]) -> list[TextTable]:
    """Return the tables of `answers`."""
    rows = answered["errors"]
    quantities = list(dict.fromkeys(row["quantity"] for row in rows))
    cells: dict[str, dict[str, str]] = {}
    for row in rows:
        cells.setdefault(row["level"], {})[row["quantity"]] = _change(row["start"], row["error"])
    shown = [
        [level_title(level), *(of_level.get(name, "") for name in quantities)] for level, of_level in cells.items()
    ]
    notes = [MODEL, CALIBRATED if any(row["how"] == "model" for row in rows) else NOT_CALIBRATED]
    if outside := answered["outside_trials"]:
        notes.append(f"Outside these trials: {' and '.join(outside)}. --check N measures real runs.")
    notes += [OCCUPIED] * ("occupied" in quantities)
    found = [TextTable("Predicted mean absolute error", ["level", *quantities], shown, notes)]
    if targets := answered["targets"]:
        fewer = [(row["level"], row["areas"]) for row in targets if row["areas"] * (1 - TARGET) < 1]
        found.append(
            TextTable(
                "Areas of 500 and more persons whose largest group is within 5 points",
                ["level", "areas", "expected share"],
                [
                    [level_title(row["level"]), f"{row['areas']:,}", _percent(row["start"], row["share"])]
                    for row in targets
                ],
                [
                    "The redistricting target of 2021 is 95% of the areas. Groups: Hispanic, and others by race.",
                    *([every_area(fewer, TARGET)] * bool(fewer)),
                ],
            )
        )
    if biases := answered["block_bias"]:
        found.append(
            TextTable(
                "Predicted bias of the totals of blocks, by size",
                ["persons in the block", "bias"],
                [[row["size"], _arrow(f"{row['start']:+.2f}", f"{row['bias']:+.2f}")] for row in biases],
            )
        )
    return found


def shares_table(before: Allocation, after: Allocation) -> TextTable:
    """Return the shares of levels and, within each, of queries, as they were and are."""
    rows = []
    for level, share in after.levels.items():
        rows.append([level, "", _arrow(f"{float(before.levels[level]):.2%}", f"{float(share):.2%}")])
        for query, alpha in after.queries[level].items():
            rows.append(["", query, _arrow(f"{float(before.queries[level][query]):.2%}", f"{float(alpha):.2%}")])
    budgets = _arrow(near(float(before.budget)), near(float(after.budget)))
    title = f"Shares of the persons' budget, {budgets}: of {before.source}, and these"
    return TextTable(title, ["level", "query", "share"], rows, words=2)


def margins_table(start: Mapping[str, Allocation], end: Mapping[str, Allocation], run: TopDownRun) -> TextTable:
    """Return the mean margins of error at 95% of least squares over all answers, with two allocations."""
    before, after = (exact_errors(run, own["persons"]) for own in (start, end))
    rows = [
        [level, *(_change(Z95 * before[level, count], Z95 * after[level, count]) for count in EXACT)]
        for level in dict.fromkeys(level for level, _ in after)
    ]
    notes = ["Exact except for the use of zeros and declared totals by gls. A cell is one of 126 sums."]
    return TextTable("Mean margin of error at 95% with --estimator gls", ["level of the spine", *EXACT], rows, notes)


def front_table(points: Sequence[Mapping[str, Any]]) -> TextTable:
    """Return the table of the errors of two aims, between the best shares for each."""
    names = [name for name in points[0] if name != "allocation"]
    rows = [[near(point[name], 3) for name in names] for point in points]
    notes = ["From the best shares for the first aim to those for the second; their shares: --json."]
    return TextTable("Mean absolute errors between two aims", names, rows, notes, words=0)


def compare_with_measured(answered: dict[str, Any], errors: DataFrame, targets: DataFrame) -> TextTable:
    """Enter the errors of measured runs into `answered`; return a table of what was predicted and measured.

    errors, targets: as `accuracy.errors.averaged` and `targeted` return them.
    """
    whole = errors[errors["size"] == "all"].set_index(["product", "level", "quantity"])["mae"]
    shares, rows = targets.set_index("level")["share"] / 100, []
    for row in answered["errors"]:
        key = (row["product"], row["level"], row["quantity"])
        if key in whole.index:
            row["measured"] = float(whole[key])
            ratio = f"{row['error'] / row['measured']:.2f}" if row["measured"] else ""
            rows.append([level_title(key[1]), key[2], near(row["error"], 3), near(row["measured"], 3), ratio])
    for row in answered["targets"]:
        if row["level"] in shares.index:
            row["measured"] = float(shares[row["level"]])
            shown = [f"{row[name]:.1%}" for name in ("share", "measured")]
            rows.append([level_title(row["level"]), "largest group within 5 points", *shown, ""])
    columns = ["level", "quantity", "predicted", "measured", "ratio"]
    return TextTable("Mean absolute errors, predicted and in measured runs", columns, rows, words=2)


def _change(start: float, end: float) -> str:
    """Return an error before and after, and by how much it changed."""
    if near(start, 3) == near(end, 3):
        return near(end, 3)
    part = f" ({end / start - 1:+.0%})" if start > 0 else ""
    return f"{near(start, 3)} → {near(end, 3)}{part}"


def _percent(start: float, end: float) -> str:
    return _arrow(f"{start:.1%}", f"{end:.1%}")


def _arrow(start: str, end: str) -> str:
    return end if start == end else f"{start} → {end}"
