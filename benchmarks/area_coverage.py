"""How often the intervals of `das tda areas` hold the truth, and published counts are nearer to it than estimates.

And what a question takes. On synthetic persons.

    python benchmarks/area_coverage.py RELEASE DATA [--plans 20] [--areas 50] [--tracts]

RELEASE of `das tda run DATA`, with measurements, of one state. Each plan cuts the blocks, in the order of their codes,
at random places; with --tracts between tracts. Under a right law a share of mean 0.90 and 0.95 of the intervals hold
the count of DATA; areas of one noise are dependent, so the shares scatter by some hundredths. `nearer`: the share of
areas whose published count is nearer to that of DATA than the estimate is; `published`, `estimate`: how far they are
from it on average. The last line is JSON.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from measure import arguments, machine, measure_das

BLOCK = {"TABBLKST": 2, "TABBLKCOU": 3, "TABTRACTCE": 6, "TABBLK": 4}  # columns and their digits
COUNTS = ("total", "voting age", "race: black")


def main() -> None:
    words = arguments(__doc__)
    words.add_argument("release", type=Path)
    words.add_argument("data", type=Path)
    words.add_argument("--plans", type=int, default=20)
    words.add_argument("--areas", type=int, default=50)
    words.add_argument("--tracts", action="store_true")
    given = words.parse_args()
    truth = _truth(given.data)
    random = np.random.default_rng(11)
    held, seconds, processor = [], [], []
    for _ in range(given.plans):
        parts = pd.factorize(truth.index.str[:11])[0] if given.tracts else np.arange(len(truth))
        cuts = np.sort(random.choice(parts[-1], given.areas - 1, replace=False))
        plan = pd.Series(np.searchsorted(cuts, parts), truth.index)
        found, cost = _ask(given.release, plan)
        held.append(_held(found, truth.groupby(plan).sum()))
        seconds.append(round(cost["seconds"], 1))
        processor.append(round(cost["processor_seconds"], 1))
    shares = pd.concat(held).groupby("count").mean().round(3)
    result = {"machine": machine(), "areas": given.plans * given.areas, "first": [seconds[0], processor[0]]}
    result |= {"again": [float(np.median(seconds[1:])), float(np.median(processor[1:]))]}
    print(json.dumps(result | {"share_held": shares.to_dict("index")}))


def _truth(data: Path) -> pd.DataFrame:
    """Return the counts of every block with living quarters, in the order of their codes."""
    blocks = pd.Index(sorted(pd.read_csv(data / "quarters.csv", dtype=str)["tabblk"].str[:15]), name="block")
    persons = pd.read_parquet(data / "persons.parquet").astype(str)
    code = sum((persons[name].str.zfill(width) for name, width in BLOCK.items()), pd.Series("", persons.index))
    each = pd.DataFrame(
        {"total": 1, "voting age": persons["VOTING_AGE"] == "2", "race: black": persons["CENRACE"] == "02"}
    )
    return each.groupby(code).sum().reindex(blocks, fill_value=0)


def _ask(release: Path, plan: pd.Series[int]) -> tuple[pd.DataFrame, dict[str, float | int]]:
    """Return the rows of `das tda areas`, and what it took."""
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder) / "plan.csv", Path(folder) / "out"
        plan.rename("DISTRICT").rename_axis("BLOCK").to_csv(file)
        cost, _ = measure_das("tda", "areas", release, file, out, "--count", ",".join(COUNTS))
        return pd.read_csv(out / "areas.csv", dtype={"area": str}), cost


def _held(found: pd.DataFrame, truth: pd.DataFrame) -> pd.DataFrame:
    """Return by area and count whether each interval holds the truth, and the published count is nearer to it."""
    rows = found[found["area"].str.isdigit()]
    true = truth.stack().reindex(pd.MultiIndex.from_arrays([rows["area"].astype(int), rows["count"]])).to_numpy()
    inside = {end: (rows[f"low_{end}"] <= true) & (true <= rows[f"high_{end}"]) for end in ("90", "95")}
    off = {name: (rows[name] - true).abs() for name in ("published", "estimate")}
    nearer = off["published"] < off["estimate"]
    return pd.DataFrame({"count": rows["count"], **inside, "nearer": nearer, **off})


if __name__ == "__main__":
    main()
