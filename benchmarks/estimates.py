"""What estimates buy: by exact sums over the laws, and by simulation on synthetic persons.

    python benchmarks/estimates.py                              # the laws: production, and pure DP over gamma
    python benchmarks/estimates.py PARAMS DATA [--runs 30]      # runs over synthetic data, compared with the laws

Errors are root mean squares of T1 totals, coverage that of each estimate's own margin; a reduction has the standard
error over the runs. The cost of the stage: `measure.py das run` with and without it.
"""

from __future__ import annotations

import tempfile
from fractions import Fraction

import numpy as np
import pandas as pd
from measure import arguments

from flows.execution.cluster import ClusterSettings, open_cluster
from flows.execution.repetitions import measure_accuracy
from flows.execution.safetab_settings import DetailedDhcaSettings
from privacy.estimation.estimator import make_estimator
from privacy.estimation.near_threshold import likely, size_laws
from privacy.estimation.pooling import AnswerLaws, pool
from privacy.estimation.selection import correct
from privacy.noise.laws import Definition, law
from privacy.noise.margins import margin_of_error
from spine.settings import Jurisdiction
from tasks.lifecycle.workers import Workers
from tasks.safetab.levels import Level
from tasks.safetab.noise import load_queries
from tasks.safetab.persons.accuracy.report import WORKLOADS, make_report
from tasks.safetab.persons.details import WIDTHS
from tasks.safetab.persons.run import DetailedRun

BUDGETS: dict[Definition, tuple[str, ...]] = {"zcdp": ("2.134", ".159", ".008"), "puredp": ("7.487", "2.338", ".5338")}
CELLS = (1, 8, 18, 46)
STABILITY = 9


def answers(definition: Definition, budget: str, cells: int, gamma: str = ".1") -> AnswerLaws:
    first, rest = (part * Fraction(budget) for part in (Fraction(gamma), 1 - Fraction(gamma)))
    return AnswerLaws(law(definition, first, STABILITY), law(definition, rest, STABILITY), cells)


def print_laws() -> None:
    """Deviation and margin of a total before and after, far from thresholds."""
    print("total: deviation, margin of the count -> of the estimate")
    for definition, budgets in BUDGETS.items():
        for budget in budgets:
            result = []
            for cells in CELLS:
                answered = answers(definition, budget, cells)
                plain = make_estimator(answered, None, None)
                margin = margin_of_error(answered.stage_2, cells)
                result.append(f"{answered.deviations[1]:.3f} -> {plain.deviation:.3f} ({margin} -> {plain.margin})")
            print(f"{definition:7}{budget:>7}  " + "  ".join(result))


def print_gammas(definition: Definition = "puredp", budget: str = "7.487", cells: int = 46) -> None:
    """The weight of pooling over gamma, and what the full weight would do near a threshold."""
    print(f"\n{definition} {budget}, {cells} cells: gamma, weight, deviations; at full weight, near a threshold: the")
    print("worst error by the count's, and how often the far margin covers")
    for gamma in (".1", ".2", ".3", ".5", ".7", ".9"):
        answered = answers(definition, budget, cells, gamma)
        plain, full = make_estimator(answered, 0, None), pool(answered)
        laws = size_laws(correct(answered, ridge=1e-11), 1, margin=full.margin)
        worst = max(law.deviation for law in likely(laws)) / answered.deviations[1]
        covered = next(law.covered for law in laws if law.size == 0)
        deviations = f"{answered.deviations[1]:.1f} -> {plain.deviation:.1f}"
        print(f"{gamma:>4} {plain.weight:6.3f}  {deviations:>15} {worst:7.3f} {covered:7.3f}")


def simulate(params: str, data: str, runs: int, jurisdiction: Jurisdiction) -> pd.DataFrame:
    """The gains of T1 over some runs: mean and standard error over them, and what the law gives."""
    with tempfile.TemporaryDirectory() as folder:
        places = {"params": params, "data": data, "out": f"{folder}/out", "runs_folder": folder}
        places |= {"ledger": f"{folder}/ledger.sqlite", "run_id": "run"}
        settings = DetailedDhcaSettings.new(**places, jurisdiction=jurisdiction, estimates=True, spine=False)
        run = settings.directory
        run.create()
        result = []
        with open_cluster(ClusterSettings(), run / "dask") as client:
            for number in range(runs):
                measured = measure_accuracy(settings, Workers(client), 1)
                assert measured is not None, "the jurisdiction has no block"
                gains = make_report(measured).gains()
                result.append(gains[gains["COUNT_OF"] == "table"].assign(run=number))
        return summary(run, pd.concat(result))


def summary(run: DetailedRun, result: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for key, part in result.groupby(["REGION_TYPE", "ITERATION_LEVEL", "WORKLOAD"], sort=False):
        region_type, iteration_level, workload = key
        number = part["COUNTS_ESTIMATE"]
        rmse = {
            column: np.sqrt((part[f"RMSE_{column}"] ** 2 * number).sum() / number.sum())
            for column in ("COUNT", "ESTIMATE")
        }
        rows.append(
            {
                "level": f"({region_type}, {iteration_level})",
                "workload": workload,
                "groups a run": number.mean(),
                "count": rmse["COUNT"],
                "estimate": rmse["ESTIMATE"],
                "reduction %": 100 * (1 - rmse["ESTIMATE"] / rmse["COUNT"]),
                "+-": 100 * part["GAIN"].std(ddof=1) / len(part) ** 0.5,
                "law %": reduction(run, Level(str(region_type), int(iteration_level)), str(workload)),
                "coverage": (part["COVERAGE_ESTIMATE"] * number).sum() / number.sum(),
            }
        )
    return pd.DataFrame(rows)


def reduction(run: DetailedRun, level: Level, workload: str) -> float:
    """The law's, far from thresholds; 0 for TotalOnly groups."""
    if workload == "TotalOnly":
        return 0.0
    queries, cells = load_queries(run, level), int(WIDTHS[WORKLOADS.index(workload)])
    answers_of_level = AnswerLaws(queries.law("stage_1"), queries.law("stage_2"), cells)
    return 100 * (1 - make_estimator(answers_of_level, None, None).deviation / answers_of_level.deviations[1])


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("params", nargs="?")
    parser.add_argument("data", nargs="?")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--jurisdiction", choices=["us", "pr"], default="us")
    chosen = parser.parse_args()
    if chosen.params is None:
        print_laws()
        print_gammas()
    else:
        print(simulate(chosen.params, chosen.data, chosen.runs, chosen.jurisdiction).round(3).to_string(index=False))


if __name__ == "__main__":
    main()
