"""Repeat a run on synthetic data and compare its totals to the truth. Synthetic data charges no budget.

python examples/compare_to_truth.py FOLDER 3
"""

import subprocess
import sys
from pathlib import Path

import pandas as pd

import das_flows as das

folder, runs = Path(sys.argv[1]), int(sys.argv[2])
KEYS = ["region_type", "region_id", "iteration_code"]


def run_das(*words: object) -> None:
    """Run a command of das, in silence."""
    program = Path(sys.executable).with_name("das")
    subprocess.run([program, *map(str, words), "--json"], check=True, stdout=subprocess.DEVNULL)


def totals(releases: Path) -> pd.DataFrame:
    """The totals of all levels of the US and Puerto Rico."""
    table = pd.concat(das.read_release(releases / name) for name in ("us", "pr"))
    return table[table.sex.isna()].astype({"region_type": str})[[*KEYS, "count", "margin"]]


run_das("synth", folder / "made")
params, data = folder / "made/params", folder / "made/data"
small = ("--runs-folder", folder / "state", "--workers", 1)  # more workers would take longer to start than to work
run_das("truth", params, data, folder / "truth", *small)
for number in range(runs):
    run_das("run", params, data, folder / f"run-{number}", "--no-spine", *small)
    released = totals(folder / f"run-{number}")
    both = released.merge(totals(folder / "truth"), on=KEYS, how="left", suffixes=("", "_true"))
    error = both["count"] - both.count_true.fillna(0)  # a group that the truth does not list is empty
    within = (error.abs() <= both.margin).groupby(both.region_type).mean()
    print(f"run {number}: {len(both)} published groups, mean error {error.mean():+.2f}")
    print("   within the stated margin:", ", ".join(f"{name} {share:.1%}" for name, share in within.items()))
