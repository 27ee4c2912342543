"""Time the TopDown estimation parent by parent, and general solvers on the same parents in the same run.

    .venv/bin/python benchmarks/top_down_parents.py             # Rhode Island's blocks with synthetic persons
    .venv/bin/python benchmarks/top_down_parents.py --large     # a nation's 102 parts of states, 1,000 tracts

Processor seconds. PIQP and Clarabel solve the least squares at 1e-9, HiGHS the rounding; their matrices are assembled
inside the time, as ours is. gap: (our objective - theirs) / theirs, the constant of the objective included. violation:
the most by which our solution misses a count, band or bound. cost: ours minus the optimum of HiGHS.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from measure import DATA, arguments

sys.path += [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "tests")]  # tests/spine is another package
from top_down_cases import STATE, State, everything, measuring, plan_of, populate, state

from spine import build
from spine.bypass import bypass
from spine.geography import Geography, geocode16, gq_pattern
from spine.hierarchy import Spine
from spine.production import allocation
from spine.redistricting import PERSONS, redistricting_bounds, redistricting_passes
from spine.settings import settings_for
from spine.top_down import Plan, TrueHistograms, descend, integer_programs, solve_parent
from spine.top_down.histogram import from_entries
from spine.top_down.own_answers import ChildAnswers, ParentProblem
from spine.top_down.quadratic_programs import least_squares
from spine.top_down.queries import coordinates_of

COLUMNS = (("place", "PLACEFP", "99999"), ("mcd", "COUSUBFP", "99999"), ("aian", "AIANNHCE", "9999"))
UNKNOWNS = 1500  # of the parents that the general solvers are given: their matrices grow with the square
BLOCKS = DATA / "ri_blocks_2020.csv.gz"


def rhode_island(seed: int = 1) -> State:
    """The real blocks with their populations, synthetic persons, production's optimized spine below the nation."""
    table = pd.read_csv(BLOCKS, dtype=str).sort_values("GEOID")
    number = {name: table[name].astype(int).to_numpy() for name in ("STATE", "COUNTY", "TRACT", "BLOCK", "POP")}
    code = geocode16(number["STATE"], number["COUNTY"], number["TRACT"], number["BLOCK"])
    tract = np.unique(code // 10**5, return_inverse=True)[1]
    row, cell, quarters = populate(number["POP"], tract, seed)
    codes = {name: table[column].fillna(none).astype(int).to_numpy() for name, column, none in COLUMNS}
    place, mcd, aian = codes["place"].astype(np.int32), codes["mcd"].astype(np.int32), codes["aian"].astype(np.int16)
    present = gq_pattern([quarters[:, t] > 0 for t in range(1, 8)])
    universe = quarters.sum(axis=1) > 0
    geography = Geography(code, place, mcd, aian, gq=present).take(universe)
    settings = settings_for("pl94-persons", "us")
    spine = build.optimized(geography, settings).with_shares(dict(allocation("pl94-persons", "us").levels))
    spine = bypass(spine, settings).without_root()
    position = np.full(len(code), -1)
    position[np.flatnonzero(universe)[spine.order]] = np.arange(len(geography))
    ones = np.ones(len(row), np.int64)
    persons = from_entries(TrueHistograms, 4, 0, position[row], cell, ones, len(geography))
    return State(spine, persons, quarters[universe][spine.order])


def estimated(plan: Plan, persons: TrueHistograms) -> list[tuple[int, ParentProblem]]:
    """Run an estimation, print its time by level, and return every parent's problem."""
    kept: list[tuple[int, ParentProblem]] = []
    real = descend._solve

    def keep(plan: Plan, level: int, parent: int, problem: ParentProblem) -> Any:
        kept.append((level, problem))
        return real(plan, level, parent, problem)

    measure = measuring(plan, persons, 1)
    descend._solve = keep
    _, solves = everything(plan, measure)
    descend._solve = real
    for level, name in enumerate(plan.spine.levels):
        chosen = [solve for solve in solves if solve.level == level]
        if chosen:
            iterations = [solve.iterations for solve in chosen]
            seconds = sum(s.least_squares_seconds for s in chosen), sum(s.rounding_seconds for s in chosen)
            children, cells = max(s.children for s in chosen), max(s.cells for s in chosen)
            print(
                f"{name:12} {len(chosen):6,} parents, up to {children:,} children and {cells:,} cells: "
                f"least squares {seconds[0]:.2f} s, rounding {seconds[1]:.2f} s, "
                f"iterations {np.median(iterations):.0f} (most {max(iterations)}), "
                f"violation {max(s.violation for s in chosen):.0e}, failed {sum(s.failed for s in chosen)}"
            )
    return kept


def compare_solvers(plan: Plan, parents: list[tuple[int, ParentProblem]], sample: int) -> None:
    """Our solvers and the general ones on a sample of each level's parents that these can hold."""
    rng = np.random.default_rng(0)
    for level, name in enumerate(plan.spine.levels):
        fitting = [d for at, d in parents if at == level and d.allowed_cells.size <= UNKNOWNS]
        fitting = [d for d in fitting if len(d.parent.counts)]
        chosen = [fitting[at] for at in rng.permutation(len(fitting))[:sample]]
        if not chosen:
            continue
        rows = [compared(problem, total_first=name != "Block") for problem in chosen]
        mean = {key: np.mean([row[key] for row in rows]) for key in rows[0]}
        gaps = [row["gap"] for row in rows]
        ms = {key: f"{mean[key] * 1e3:.2f}" for key in ("ours", "piqp", "clarabel", "rounding", "highs")}
        violation, cost = max(row["violation"] for row in rows), max(abs(row["cost"]) for row in rows)
        print(
            f"{name:12} {len(rows):4} parents: least squares {ms['ours']} ms, PIQP {ms['piqp']}, "
            f"Clarabel {ms['clarabel']}; gap to PIQP {min(gaps):.1e} .. {max(gaps):.1e}, violation {violation:.0e}; "
            f"rounding {ms['rounding']} ms, HiGHS {ms['highs']}, cost {cost:.0e}"
        )


def compared(problem: ParentProblem, total_first: bool) -> dict[str, float]:
    """Times, gap, violation and cost of one parent."""
    ours, (x, *_) = timed(lambda: solve_parent.solve(problem))
    piqp, other = timed(lambda: least_squares(problem, "piqp"))
    clarabel, _ = timed(lambda: least_squares(problem, "clarabel"))
    hessian, linear = problem.objective.quadratic(problem.parent.cells)
    constant = sum_of_squares(problem)

    def objective(point: np.ndarray) -> float:
        flat = point.ravel()
        return float(flat @ (hessian @ flat) / 2 - linear @ flat) + constant

    rounding, (whole, _) = timed(lambda: solve_parent.to_integers(problem, x, total_first))
    highs, (best, _) = timed(lambda: integer_programs.rounding(problem, x, total_first))
    cost, together, _, floor = integer_programs.rounding_program(problem, x, total_first)
    return {
        "ours": ours,
        "piqp": piqp,
        "clarabel": clarabel,
        "gap": (objective(x) - objective(other)) / objective(other) if other is not None else np.nan,
        "violation": problem.violation(x),
        "rounding": rounding,
        "highs": highs,
        "cost": rounded_cost(cost, together, whole - floor) - rounded_cost(cost, together, best - floor),
    }


def sum_of_squares(problem: ParentProblem) -> float:
    """The constant of the objective: w |y|^2 / 2 over the coordinates that hold a cell of the problem."""
    own = problem.objective
    assert isinstance(own, ChildAnswers)
    total = 0.0
    for weight, at in zip(
        own.weights / own.weights[0].max(), coordinates_of(own.queries, problem.parent.cells), strict=True
    ):
        total += float((weight * (own.answers[:, np.unique(at)] ** 2).T).sum()) / 2
    return total


def rounded_cost(cost: np.ndarray, together: Any, b: np.ndarray) -> float:
    """The program's objective at b: each distance as small as its two rows allow."""
    cells, distances = b.size, len(cost) - b.size
    sums = together.A.tocsr()[:distances, :cells] @ b.ravel()
    return float(cost[:cells] @ b.ravel() + cost[cells:] @ np.abs(sums - together.ub[:distances]))


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of the second of two runs (the first loads code), and its result."""
    run()
    start = process_time()
    result = run()
    return process_time() - start, result


def large() -> None:
    """Shapes that no state of a test has: a nation's root and 102 parts, and a county of 1,000 tracts."""
    alloc, passes = allocation("pl94-persons", "us"), redistricting_passes(PERSONS)
    parts = np.arange(102)
    top = Spine(("US", "State"), parts, (parts[:1], parts), (parts[:1], parts), 1)
    top = top.with_shares({level: alloc.levels[level] for level in top.levels})
    sizes = np.where(parts % 2, 20_000, 60_000)
    nation = state(top, sizes, parts // 2, 1)
    totals = dict(enumerate(np.bincount(parts // 2, nation.persons.totals()).tolist()))
    estimated(
        Plan(PERSONS, top, alloc, redistricting_bounds(PERSONS, top, nation.quarters, totals, parts // 2), passes),
        nation.persons,
    )
    tracts = np.arange(1000)
    starts = (tracts[:1], tracts[:1], tracts)
    county = Spine(("State", "County", "Tract"), tracts, starts, starts, 1)
    county = county.with_shares({level: alloc.levels[level] for level in county.levels})
    truth = state(county, np.full(1000, 3900), tracts, 1)
    declared = redistricting_bounds(PERSONS, county, truth.quarters, {STATE: truth.total()}, np.full(1000, STATE))
    estimated(Plan(PERSONS, county, alloc, declared, passes), truth.persons)


def main() -> None:
    """Print the times."""
    parser = arguments(__doc__)
    parser.add_argument("--large", action="store_true", help="a nation's root and a county of 1,000 tracts")
    parser.add_argument("--sample", type=int, default=40, help="parents of each level for the general solvers")
    chosen = parser.parse_args()
    if chosen.large:
        large()
    else:
        plan_and_persons = rhode_island()
        plan = plan_of(plan_and_persons)
        compare_solvers(plan, estimated(plan, plan_and_persons.persons), chosen.sample)
    print(f"most memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
