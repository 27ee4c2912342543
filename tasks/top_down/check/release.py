"""Check a release of the TopDown Algorithm from its files alone: budgets and laws, then files and counts.

Not checked, because no file of a release shows it: the noise itself, standard errors, and, where the measurements and
with them the block table are not released, the sums over off-spine entities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from privacy.noise.exact import parse_exact
from privacy.noise.laws import DiscreteGaussian, Law, TwoSidedGeometric
from privacy.noise.sampler import check_law
from tasks.inputs.names import NAMES
from tasks.inputs.points import POINTS
from tasks.lifecycle.check import Check, check_spend
from tasks.lifecycle.manifest import noise_law
from tasks.top_down.check.counts import check_counts, check_margins
from tasks.top_down.check.measurements import check_measurements
from tasks.top_down.run_plan import US
from tasks.top_down.spend import compose


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check]:
    """Check the spend against the noise, then the files, then every count that is released twice."""
    if spent := manifest["spent"]:
        costs = {  # a bypass moves shares along a path and keeps their sum: the levels' own sum to what is spent
            product: parse_exact(entry["budget"]) * sum(map(parse_exact, entry["shares"].values()), Fraction(0))
            for product, entry in manifest["products"].items()
        }
        yield check_spend(compose(spent["definition"], costs), spent)
    for product, entry in manifest["products"].items():
        if "noise" in entry:
            yield check_laws(product, entry)
            yield check_shares(product, entry, us_level=manifest["spine"]["us_level"])
    for product, entry in manifest["products"].items():
        yield from check_counts(release, manifest, product)
        if "noise" in entry:
            yield from check_measurements(release, manifest, product)
        if "margins" in entry:
            yield from check_margins(release, manifest, product)
    yield from NAMES.check(release, manifest["files"])
    yield from POINTS.check(release, manifest["files"])


def check_laws(product: str, entry: Mapping[str, Any]) -> Check:
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


def check_shares(product: str, entry: Mapping[str, Any], *, us_level: bool | None = None) -> Check:
    """Compare the shares of the levels with the levels, and those of their query groups with 1.

    us_level: whether the US level of the redistricting data is measured; without it the levels' shares sum to less
    than 1. None: of a declaration.
    """
    levels = {level: parse_exact(share) for level, share in entry["shares"].items()}
    faults = []
    if set(levels) != set(entry["geounits"]) or us_level not in (None, US in levels):
        faults.append(f"there are shares of {', '.join(levels)}, and geounits of {', '.join(entry['geounits'])}")
    if us_level is not False and sum(levels.values()) != 1:
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
    return Check(f"shares of {product}", f"{len(levels)} levels", tuple(faults))
