"""Describe a TopDown release: report, tables and manifest.json; nothing in them is exact about persons or units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spine.allocations import Allocation
from spine.noise import distinct_shares, noise
from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.commit import manifest_of
from tasks.lifecycle.staging import write_all_tidy
from tasks.lifecycle.workers import Workers
from tasks.releases.describe import write_descriptions
from tasks.releases.manifest import GUARANTEE, noise_law
from tasks.top_down.blocks import BlockSource
from tasks.top_down.estimate.gls.margin_tables import describe_margins
from tasks.top_down.estimate.topdown import load_solves
from tasks.top_down.release.design_file import described_design
from tasks.top_down.release.report import write_report
from tasks.top_down.release.tables import description
from tasks.top_down.run_plan import US, Design, law, request_digest
from tasks.top_down.source import Branch, Source
from tasks.top_down.spend import planned_spend

if TYPE_CHECKING:
    from spine.top_down import Solve

TITLE = "Redistricting data by the TopDown Algorithm"  # `release` in manifests
STATEMENTS = {
    "guarantee": GUARANTEE,
    "neighbours": "The budget bounds what replacing one person's record, and one living quarters' record, by another "
    "in the same state can change. It does not cover what is declared: each state's total population, and each block's "
    "number of housing units and of group-quarters facilities by type, which are published as they are.",
    "not_reconciled": "Persons and units are estimated apart: a block may have persons and no occupied unit.",
    "bias": "Counts are not negative, so small counts are too high on average and large ones of blocks too low. Blocks "
    "with housing units and nobody in them may get persons; blocks without living quarters never do.",
    "not_solved": "Parents listed under failed were not solved by the first method; their children meet every sum and "
    "invariant all the same.",
}
LATER = {
    "standard_errors": "Unbiased estimates with standard errors and margins need no further budget: das tda estimate "
    "RELEASE OUT --estimator gls makes them of the measurements in this release."
}
OF_OUR_MEASUREMENTS = ("guarantee", "neighbours")  # not stated for the Bureau's files


def describe_release(run: BlockSource, workers: Workers, staged: Path) -> None:
    """Write report.html, tables/, the descriptions and, over all files of the staging folder, manifest.json."""
    validated, truth, origin = run.validated, is_truth(run), run.origin
    own = {
        **({"source": origin.facts} if origin and origin.facts else {}),
        **designed(
            run.design,
            validated.states,
            validated.digests,
            nation=validated.nation,
            drawn=not truth and origin is None,
            unsaid=[*STATEMENTS] if truth else OF_OUR_MEASUREMENTS if origin and origin.run is None else (),
        ),
        "state_totals": {state: run.state(state).totals[int(state)] for state in validated.states},
        "spine": {"kind": run.design.kind, "us_level": validated.nation, "digest": run.spine_digest()},
        "products": {product: _product(run, product) for product in run.design.products},
    }
    manifest = source_manifest(run, TITLE, own)
    write_report(run, staged, manifest)
    write_descriptions(staged, description(manifest), manifest, partial(write_all_tidy, run, workers, staged))


def source_manifest(source: Source, title: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of a release, except the digests of its files; own: what only its kind of release states."""
    origin = source.origin
    estimate = {} if origin is None else {"ESTIMATE": origin.statement}
    manifest = manifest_of(source, title, source.validated.mark, estimate | {**own})
    if origin and origin.facts:  # das-flows may not have drawn the noise
        del manifest["noise_scheme"]
    return manifest


def designed(
    design: Design,
    states: Sequence[str],
    digests: Mapping[str, str],
    *,
    nation: bool,
    drawn: bool,
    unsaid: Collection[str],
) -> dict[str, Any]:
    """Return the statements of a release that follow from its design.

    drawn: whether the run drew noise of its own. unsaid: the statements in words that are not true of it.
    """
    return {
        "region": design.jurisdiction.upper(),
        "spent": planned_spend(design, nation=nation).as_json() if drawn else None,
        "states": list(states),
        "design": described_design(design),
        "statements": {name: words for name, words in STATEMENTS.items() if name not in unsaid}
        | (LATER if drawn and design.estimator == "topdown" and design.measurements == "parquet" else {}),
        "options": {
            "estimator": design.estimator,
            "microdata": design.microdata,
            "measurements": design.measurements == "parquet",
            **({"nmf": True} if design.measurements == "nmf" else {}),
            **({"pl94": True} if design.pl94 else {}),
        },
        "public_files": dict(digests),
        "configuration_digest": request_digest(design, digests),
    }


def measured(allocation: Allocation, levels: Iterable[str], shares: Mapping[str, list[Fraction]]) -> dict[str, Any]:
    """Return what a histogram states of its noise. shares: by level, those that some geounit has, ascending."""
    return {
        "budget": str(allocation.budget),
        "shares": {level: str(allocation.levels[level]) for level in levels},
        "noise": list(describe_noise(allocation, shares)),
    }


def _product(run: BlockSource, product: str) -> dict[str, Any]:
    """Describe how a product was measured, and how its parents were solved."""
    allocation = run.design.allocations[product]
    entry: dict[str, Any] = {
        "budget": str(allocation.budget),
        "allocation": allocation.source,
        "geounits": _geounits(run, product),
    }
    if not is_truth(run):
        entry |= measured(allocation, entry["geounits"], _shares(run, product))
    if margins := describe_margins(run, product):
        entry["margins"] = margins
    solved, failed = describe_solves(run, product, allocation.levels)
    return entry | {"solved": solved, "failed": [{"state": state, **row} for state, row in failed]}


def _geounits(run: BlockSource, product: str) -> dict[str, int]:
    levels = run.spine(run.branches_of(product)[0]).levels
    counts = np.sum([summary.geounits for summary in run.summaries(product)], axis=0).tolist()
    return ({US: 1} if run.validated.nation else {}) | dict(zip(levels, counts, strict=True))


def _shares(run: BlockSource, product: str) -> dict[str, list[Fraction]]:
    """Return by level the shares that some geounit has, ascending."""
    shares: dict[str, set[Fraction]] = {}
    if run.validated.nation:
        shares[US] = {run.design.allocations[product].levels[US]}
    for branch in run.branches_of(product):
        for level, distinct in distinct_shares(run.spine(branch)).items():
            shares.setdefault(level, set()).update(distinct)
    return {level: sorted(distinct) for level, distinct in shares.items()}


def describe_noise(allocation: Allocation, shares: Mapping[str, list[Fraction]]) -> Iterator[dict[str, Any]]:
    """Yield the law of every level, share and query group; shares: by level, ascending."""
    for each in noise(allocation, shares):
        yield {
            "level": each.level,
            "share": str(each.share),
            "query": each.query,
            "alpha": str(each.alpha),
            **noise_law(law(allocation, each.share, each.alpha)),
        }


def describe_solves(
    source: Source, product: str, levels: Iterable[str]
) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    """Return by level of the children how parents were solved, and with its part each that was not at the first try."""
    by_level: dict[str, list[Solve]] = {level: [] for level in levels}
    failed = []
    for branch in (each for each in [*source.nations, *source.branches] if each.product == product):
        of_branch = source.spine(branch).levels
        for solve in load_solves(source, branch):
            by_level[of_branch[solve.level]].append(solve)
            if solve.failed:
                failed.append((branch.name, _describe_failed(source, branch, of_branch, solve)))
    solved = {
        level: {
            "parents": len(solves),
            "iterations": _spread([solve.iterations for solve in solves]),
            "least_squares": dict(sorted(Counter(str(s.solver) for s in solves).items())),
            "rounding": dict(sorted(Counter(str(s.rounding) for s in solves).items())),
            "largest_violation": max(float(s.violation) for s in solves),
        }
        for level, solves in by_level.items()
        if solves
    }
    return solved, failed


def _describe_failed(source: Source, branch: Branch, levels: Sequence[str], solve: Solve) -> dict[str, Any]:
    """Return how a parent was solved that the first attempt did not solve, named by its codes; a root has no parent."""
    parent = ""
    if solve.level:
        _, names = source.released(branch, levels[solve.level - 1])
        codes = names(solve.parent, solve.parent + 1, np.zeros(1, np.int64))
        parent = "/".join(str(column[0]) for column in codes.values())
    return {
        "children": levels[solve.level],
        "parent": parent,
        "least_squares": str(solve.solver),
        "rounding": str(solve.rounding),
        "violation": float(solve.violation),
    }


def _spread(numbers: list[int]) -> dict[str, int]:
    return {"median": int(np.median(numbers)), "most": max(numbers)}
