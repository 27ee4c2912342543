"""How near `das tda tune` is to real runs, and what the shares that it finds best give in them.

    python benchmarks/forecast.py STAND_IN RECORDS [--allocations 8] [--runs 3]

STAND_IN and RECORDS are folders of the same blocks with different made-up people: `das synth … --for tda --seed 1`, and
with the seed 0. Errors are predicted from STAND_IN, as the model has them, and measured on RECORDS. Printed are the
errors of production's shares; those of the shares that --best finds, over production's; and the mean ratio of predicted
to measured errors over random allocations, every share multiplied by exp(uniform(-1.2, 1.2)).
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
from tasks.top_down.accuracy.forecast import RATIOS

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


Rows = dict[tuple[str, str], dict[str, float]]


def tuned(*words: object) -> Rows:
    """Return the rows of persons of `das tda tune WORDS`, by level and quantity; the shares of areas within the target.

    Predicted errors are the model's: the ratios that the command divides out are multiplied in.
    """
    command = [DAS, "tda", "tune", *map(str, words), "--product", "persons", "--json"]
    answered = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    found = {(row["level"], row["quantity"]): row for row in answered["errors"]}
    for key, row in found.items():
        row["error"] *= RATIOS.get(key, 1.0)
    return found | {(row["level"], "target"): {**row, "error": row["share"]} for row in answered["targets"]}


def both(stand_in: Path, records: Path, runs: int, *words: object) -> Rows:
    """Return rows that are predicted from the stand-in and measured on the records."""
    predicted, measured = tuned(stand_in, *words), tuned(records, *words, "--check", runs)
    keys = [key for key, row in measured.items() if row.get("measured") and key in predicted]
    return {key: {"error": predicted[key]["error"], "measured": measured[key]["measured"]} for key in keys}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("stand_in", type=Path)
    parser.add_argument("records", type=Path)
    parser.add_argument("--allocations", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    folders = asked.stand_in, asked.records
    draws, base = np.random.default_rng(0), allocation("pl94-persons", "us")
    ratios: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        best = Path(folder) / "best.json"
        now = both(*folders, asked.runs)
        tuned(asked.stand_in, "--best", "--out", best)
        then = both(*folders, asked.runs, "--persons-allocation", best)
        print("| level | quantity | predicted | measured | best shares, predicted | measured |")
        for key, row in now.items():
            parts = [then[key][name] / row[name] for name in ("error", "measured")]
            print(
                f"| {' | '.join(key)} | {row['error']:.3g} | {row['measured']:.3g} | {parts[0]:.2f} | {parts[1]:.2f} |"
            )
        for number in range(asked.allocations):
            file = Path(folder) / f"{number}.json"
            file.write_text(json.dumps(drawn(base, draws)), "utf-8")
            for key, row in both(*folders, 1, "--persons-allocation", file).items():
                ratios.setdefault(key, []).append(row["error"] / row["measured"])
    print("| level | quantity | predicted / measured | sd of its logarithm |")
    for key, found in ratios.items():
        print(f"| {' | '.join(key)} | {np.mean(found):.2f} | {np.std(np.log(found), ddof=1):.2f} |")


if __name__ == "__main__":
    main()
