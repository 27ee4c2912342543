"""Time the spine: Wisconsin as it is, and a synthetic nation as large as the real one.

    .venv/bin/python benchmarks/spines.py                      # both
    .venv/bin/python benchmarks/spines.py --workers 2 nation   # on a local Dask cluster of two processes

Reading and checking, three spines, bypass, OSED and standard errors of all classes, Parquet and report are all timed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from measure import DATA, arguments, held, measure_das

WISCONSIN = DATA / "wi_blocks_2020.csv.gz"
# 2020 tallies of the 50 states and DC.
BLOCKS, TRACTS, COUNTIES, COUSUBS, PLACES, AIAN_AREAS = 8_132_968, 84_414, 3_143, 35_629, 31_617, 704
STATES = [s for s in range(1, 57) if s not in (3, 7, 14, 43, 52)]


def nation(path: Path, seed: int = 2020) -> None:
    """Write a GRF-C with the nation's numbers of blocks, tracts, counties, subdivisions, places and AIAN areas.

    Subdivisions, places and areas are stretches of neighbouring blocks that follow neither tracts nor block groups.
    """
    rng = np.random.default_rng(seed)
    county_state = np.sort(np.concatenate([STATES, rng.choice(STATES, COUNTIES - len(STATES))]))
    county_number = np.arange(COUNTIES) - np.searchsorted(county_state, county_state)
    tract_county = np.sort(np.concatenate([np.arange(COUNTIES), _skewed(rng, COUNTIES, TRACTS - COUNTIES)]))
    tract_number = np.arange(TRACTS) - np.searchsorted(tract_county, tract_county)
    size = rng.lognormal(sigma=0.7, size=TRACTS)
    per_tract = 1 + np.floor(size / size.sum() * (BLOCKS - TRACTS)).astype(np.int64)
    per_tract[: BLOCKS - per_tract.sum()] += 1
    tract = np.repeat(np.arange(TRACTS), per_tract)
    position = np.arange(BLOCKS) - np.repeat(np.cumsum(per_tract) - per_tract, per_tract)
    groups = np.clip(per_tract // 34, np.maximum(1, -(-per_tract // 900)), 9)[tract]
    group = position * groups // per_tract[tract]
    in_group = position - -(-group * per_tract[tract] // groups)
    county = tract_county[tract]
    columns = {
        "TABBLKST": _padded(county_state[county], 2),
        "TABBLKCOU": _padded(2 * county_number[county] + 1, 3),
        "TABTRACTCE": _padded(100 * (tract_number[tract] + 1), 6),
        "TABBLK": _padded(1000 * (group + 1) + in_group, 4),
        "COUSUBFP": _padded(_stretches(rng, COUSUBS, 1.0, 90_000) + 100, 5),
        "PLACEFP": _padded(_stretches(rng, PLACES, 0.6, 99_999), 5),
        "AIANNHCE": _padded(_stretches(rng, AIAN_AREAS, 0.02, 9_999, codes=4_700), 4),
    }
    options = pyarrow.csv.WriteOptions(delimiter="|", quoting_style="none", include_header=False)
    with path.open("wb") as file:  # the header by hand: the writer quotes it, GRF-C does not
        file.write(("|".join(columns) + "\n").encode())
        pyarrow.csv.write_csv(pa.table(columns), file, options)


def _padded(codes: np.ndarray, width: int) -> pa.Array:
    return pc.utf8_lpad(pa.array(codes).cast(pa.string()), width, "0")


def _skewed(rng: np.random.Generator, number: int, draws: int) -> np.ndarray:
    weights = rng.lognormal(sigma=1.3, size=number)
    return rng.choice(number, draws, p=weights / weights.sum())


def _stretches(rng: np.random.Generator, number: int, covered: float, none: int, codes: int = 89_000) -> np.ndarray:
    """`number` stretches of blocks with a code each, covering a part of the line; `none` between them."""
    cuts = np.sort(rng.choice(np.arange(1, BLOCKS), number, replace=False))
    stretch = np.searchsorted(cuts, np.arange(BLOCKS), side="right")
    begin, end = np.append(0, cuts)[stretch], np.append(cuts, BLOCKS)[stretch]
    inside = (np.arange(BLOCKS) - begin) < covered * (end - begin)
    return np.where(inside, 1 + stretch % codes, none)


def timed(name: str, source: Path, workers: int) -> None:
    """Run `das spine` on one geography; print seconds and the most memory of its processes together."""
    with tempfile.TemporaryDirectory() as folder:
        spine = Path(folder, "spine")
        measured, said = measure_das("spine", source, spine, "--workers", workers)
        written = held(spine)
    print(
        f"{name}: {said['blocks']:,} blocks, {said['geounits']['optimized']['Block_Group']:,} optimized block groups, "
        f"{measured['seconds']:.1f} s, {measured['peak_bytes'] / 2**30:.2f} GiB, {written / 2**20:.0f} MiB written, "
        f"{workers} workers"
    )


def main() -> None:
    """Run the benchmarks that are named, or both."""
    parser = arguments(__doc__)
    parser.add_argument("which", nargs="?", choices=["wisconsin", "nation", "both"], default="both")
    parser.add_argument("--workers", type=int, default=0, help="Dask worker processes; 0 for this process alone")
    chosen = parser.parse_args()
    if chosen.which != "nation" and WISCONSIN.exists():
        timed("Wisconsin", WISCONSIN, chosen.workers)
    if chosen.which != "wisconsin":
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "GRF-C.txt"
            nation(path)
            timed("Synthetic nation", path, chosen.workers)


if __name__ == "__main__":
    main()
