"""Draws a second on one core: our sampler, keystream included, and OpenDP's samplers of the same laws, in one run.

    python benchmarks/samplers.py [--seconds 1] [--json]

`run` is `QueryNoise.draw_run` (a totals query), `rows` is `QueryNoise.draw` of shuffled rows of 46 cells (sex by
age23); both derive the key, make the words, look the draws up and return int64. `table` is the time to make the table
of a law, once a process. OpenDP's figure is its vector mechanism on a list of zeros.
"""

import json
import os
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from importlib.metadata import version

import numpy as np
import opendp.prelude as dp
from measure import arguments, machine

from privacy.noise.laws import DiscreteGaussian, Law, TwoSidedGeometric
from privacy.noise.query_noise import QueryNoise
from privacy.noise.randomness import RunSecret
from privacy.noise.sampler import Sampler

LAWS: dict[str, Law] = {
    "discrete Gaussian, sigma^2 2.1": DiscreteGaussian(Fraction(21, 10)),
    "discrete Gaussian, sigma^2 31.4 (county, level 2, step 2)": DiscreteGaussian(Fraction(5000, 159)),
    "discrete Gaussian, sigma^2 625 (level 1, step 2)": DiscreteGaussian(Fraction(625)),
    "discrete Gaussian, sigma^2 5625 (level 1, step 1)": DiscreteGaussian(Fraction(5625)),
    "two-sided geometric, scale 2.4": TwoSidedGeometric(Fraction(12, 5)),
    "two-sided geometric, scale 17": TwoSidedGeometric(Fraction(17)),
    "two-sided geometric, scale 12000": TwoSidedGeometric(Fraction(12000)),
}


def rate(draw: Callable[[], int], seconds: float) -> float:
    """Best draws a second among repetitions of `draw`, which says how many it made; the first is not counted."""
    draw()
    best, stop = 0.0, time.perf_counter() + seconds
    while time.perf_counter() < stop:
        start = time.perf_counter()
        draws = draw()
        best = max(best, draws / (time.perf_counter() - start))
    return best


def ours(law: Law, seconds: float) -> dict[str, float]:
    start = time.perf_counter()
    Sampler(law)
    table = time.perf_counter() - start
    noise = QueryNoise(law, RunSecret.generate(), input_digest="", configuration_digest="", query="benchmark")
    rows = np.random.default_rng(0).permutation(1 << 16)
    return {
        "table_seconds": table,
        "run": rate(lambda: noise.draw_run(0, 1 << 22).size, seconds),
        "rows": rate(lambda: noise.draw(rows, 46).size, seconds),
    }


def theirs(law: Law, seconds: float) -> float:
    zeros = [0] * 20_000
    domain = dp.vector_domain(dp.atom_domain(T=int))
    if isinstance(law, DiscreteGaussian):
        mechanism = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=float(law.sigma_squared) ** 0.5)
    else:
        mechanism = dp.m.make_laplace(domain, dp.l1_distance(T=int), scale=float(law.scale))
    return rate(lambda: len(mechanism(zeros)), seconds)


def measure(seconds: float) -> dict[str, object]:
    warnings.simplefilter("ignore")
    dp.enable_features("contrib")
    results = [{"law": name, **ours(law, seconds), "opendp": theirs(law, seconds)} for name, law in LAWS.items()]
    return {
        "machine": f"{machine()}, load {os.getloadavg()[0]:.1f}",
        "versions": {name: version(name) for name in ("das-flows", "numpy", "cryptography", "opendp")},
        "unit": "draws a second on one core, best of repetitions",
        "results": results,
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each figure (default 1)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args()
    report = measure(chosen.seconds)
    if chosen.json:
        print(json.dumps(report, indent=2))
        return
    print(f"million draws a second on one core ({report['machine']})")
    print(f"{'law':<60}{'table':>10}{'run':>8}{'rows':>8}{'OpenDP':>9}")
    for line in report["results"]:
        millions = f"{line['run'] / 1e6:8.1f}{line['rows'] / 1e6:8.1f}{line['opendp'] / 1e6:9.4f}"
        print(f"{line['law']:<60}{line['table_seconds'] * 1e3:>7.1f} ms{millions}")


if __name__ == "__main__":
    main()
