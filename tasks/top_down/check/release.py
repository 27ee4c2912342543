"""Check a release of the TopDown Algorithm from its files alone: budgets and laws, then files and counts.

Not checked, because no file of a release shows it: the noise itself, standard errors, and, where the measurements and
with them the block table are not released, the sums over off-spine entities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from privacy.noise.laws import DiscreteGaussian, Law, TwoSidedGeometric
from privacy.noise.sampler import check_law
from tasks.inputs.names import check_names
from tasks.inputs.points import check_points
from tasks.lifecycle.check import Check, check_same
from tasks.lifecycle.manifest import noise_law, parse_exact
from tasks.top_down.check.counts import check_counts, check_margins, check_measurements
from tasks.top_down.check.measurement_files import check_measurement_files
from tasks.top_down.run_plan import US


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check]:
    """Check the spend against the noise, then the files, then every count that is released twice."""
    spent = manifest["spent"]
    if spent:
        unit = spent["unit"]
        total = sum((parse_exact(entry[unit]) for entry in spent["products"].values()), Fraction(0))
        yield check_same("sum of the products' budgets", unit, str(total), spent["bounded"][unit])
    for product, entry in manifest["products"].items():
        if "noise" in entry:
            yield _check_laws(product, entry)
            yield _check_shares(product, entry, manifest["spine"]["us_level"], spent)
    for product, entry in manifest["products"].items():
        yield from check_counts(release, manifest, product)
        if "noise" in entry:
            yield from check_measurements(release, manifest, product)
            yield from check_measurement_files(release, manifest, product)
        if "margins" in entry:
            yield from check_margins(release, manifest, product)
    yield from check_names(release, manifest["files"])
    yield from check_points(release, manifest["files"])


def _check_laws(product: str, entry: Mapping[str, Any]) -> Check:
    """Recompute every law from the budget and its shares of it (`spine.noise.parameter`)."""
    faults = []
    for noise in entry["noise"]:
        query = f"{noise['query']} in level {noise['level']}"
        gaussian = "sigma_squared" in noise
        part = parse_exact(entry["budget"]) * parse_exact(noise["share"]) * parse_exact(noise["alpha"])
        law: Law = DiscreteGaussian(1 / part) if gaussian else TwoSidedGeometric(2 / part)
        check_law(law)
        for key, value in noise_law(law).items():
            if noise.get(key) != value:
                faults.append(f"{query}: {key} is {value}, not {noise.get(key)}")
    return Check(f"laws of {product}", f"{len(entry['noise'])} queries", tuple(faults))


def _check_shares(product: str, entry: Mapping[str, Any], nation: bool, spent: Mapping[str, Any] | None) -> Check:
    """Compare the budget with the shares of the levels and of their query groups.

    A bypass moves shares along a path and keeps their sum, so the levels' own shares sum to the spend of the product.
    """
    levels = {level: parse_exact(share) for level, share in entry["shares"].items()}
    faults = []
    if set(levels) != set(entry["geounits"]) or (US in levels) != nation:
        faults.append(f"there are shares of {', '.join(levels)}, and geounits of {', '.join(entry['geounits'])}")
    if nation and sum(levels.values()) != 1:
        faults.append(f"the levels' shares sum to {sum(levels.values())}, not 1")
    alphas: dict[tuple[str, str], Fraction] = {}
    for noise in entry["noise"]:
        key = noise["level"], noise["share"]
        alphas[key] = alphas.get(key, Fraction(0)) + parse_exact(noise["alpha"])
    faults += [
        f"the query groups of level {level} sum to {alpha}" for (level, _), alpha in alphas.items() if alpha != 1
    ]
    faults += [
        f"level {level} has noise and no share" for level in sorted({level for level, _ in alphas} - set(levels))
    ]
    if spent:
        unit = spent["unit"]
        expected = parse_exact(entry["budget"]) * sum(levels.values(), Fraction(0))
        if expected != parse_exact(spent["products"][product][unit]):
            faults.append(f"the levels spend {unit} {expected}, not {spent['products'][product][unit]}")
    return Check(f"shares of {product}", f"{len(levels)} levels", tuple(faults))
