"""How near `das tda tune` is to real runs: predicted over measured mean absolute errors, over random allocations.

    python benchmarks/forecast.py STAND_IN RECORDS [--allocations 8]

STAND_IN and RECORDS are folders of the same blocks with different made-up people: `das synth … --for tda --seed 1`, and
with the seed 0. Every share is multiplied by exp(uniform(-1.2, 1.2)); a run is measured on RECORDS, and predicted from
STAND_IN. Printed are the mean ratio and the standard deviation of its logarithm, by level and quantity.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from measure import DAS, arguments

from spine.allocations import Allocation
from spine.production import allocation

SPAN = 1.2
SHARES = 10_000


def drawn(base: Allocation, draws: np.random.Generator) -> dict[str, object]:
    """Return an allocation file with every share moved at random."""

    def moved(shares: dict[str, float]) -> dict[str, str]:
        parts = np.array([*shares.values()]) * np.exp(draws.uniform(-SPAN, SPAN, len(shares)))
        whole = np.maximum(np.rint(parts / parts.sum() * SHARES).astype(int), 1)
        whole[whole.argmax()] += SHARES - whole.sum()
        return {name: f"{part}/{SHARES}" for name, part in zip(shares, whole.tolist(), strict=True)}

    levels = moved({level: float(share) for level, share in base.levels.items()})
    queries: dict[str, dict[str, str]] = {}
    for level, asked in base.queries.items():
        for query, share in moved({query: float(alpha) for query, alpha in asked.items()}).items():
            queries.setdefault(query, {})[level] = share
    return {"rho": str(base.budget), "geolevel": levels, "query_within_geolevel": queries}


def errors(*words: object) -> dict[tuple[str, str], dict[str, float]]:
    """Return the rows of persons of `das tda tune WORDS`, by level and quantity."""
    out = subprocess.run([DAS, "tda", "tune", *map(str, words), "--json"], check=True, capture_output=True).stdout
    rows = json.loads(out)["errors"]
    return {(row["level"], row["quantity"]): row for row in rows if row["product"] == "persons"}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("stand_in", type=Path)
    parser.add_argument("records", type=Path)
    parser.add_argument("--allocations", type=int, default=8)
    asked = parser.parse_args()
    draws, base = np.random.default_rng(0), allocation("pl94-persons", "us")
    ratios: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(asked.allocations):
            file = Path(folder) / f"{number}.json"
            file.write_text(json.dumps(drawn(base, draws)), "utf-8")
            shared = ("--product", "persons", "--persons-allocation", file)
            predicted, measured = errors(asked.stand_in, *shared), errors(asked.records, *shared, "--check", 1)
            for row, found in measured.items():
                if found.get("measured"):
                    ratios.setdefault(row, []).append(predicted[row]["error"] / found["measured"])
    print("| level | quantity | predicted / measured | sd of its logarithm |\n|---|---|--:|--:|")
    for (level, quantity), found_ratios in ratios.items():
        spread = np.std(np.log(found_ratios), ddof=1)
        print(f"| {level} | {quantity} | {np.mean(found_ratios):.2f} | {spread:.2f} |")


if __name__ == "__main__":
    main()
