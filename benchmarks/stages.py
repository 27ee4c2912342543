"""Every stage of a run beside its physical bound, measured in one run on one machine.

    python benchmarks/stages.py PARAMS DATA [--workers 2] [--region us] [--json]

PARAMS and DATA as `das synth` makes them (synthetic: nothing is charged). The bounds, with the same workers: reading
the input's bytes, parsing them with pyarrow alone, making the keystream's bytes alone, writing the output's bytes.
`tabulation` compares the exact counts of one partition with the plainest correct pandas program.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv

from flows.cluster import ClusterSettings, open_cluster
from privacy.randomness import Keystream
from tasks.budget_check import Charging, check_budget
from tasks.configuration import Level, Region
from tasks.coterminous import equate_coterminous
from tasks.digests import CHUNK_BYTES
from tasks.domain import load_domain
from tasks.geography import NOWHERE, load_geography
from tasks.persons import PersonFile, chunk_count
from tasks.population_groups import count_partition, count_population_groups, load_partitions, read_persons
from tasks.release import stage_release
from tasks.run_directory import RunDirectory, load_public
from tasks.sex_by_age import measure_sex_by_age
from tasks.suppression import suppress
from tasks.tables import read_bytes
from tasks.totals import measure_totals
from tasks.validation import load_parameters, read_parameters, validate
from tasks.workers import Workers

WORDS_EACH = 1 << 22


def timed(function: Callable[[], Any]) -> float:
    """Seconds that a call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def read_only(run: RunDirectory, path: str, number: int) -> int:
    return len(read_bytes(path, number * CHUNK_BYTES, (number + 1) * CHUNK_BYTES))


def parse_only(run: RunDirectory, path: str, number: int) -> int:
    """pyarrow with its own defaults but the delimiter, over the whole lines of a chunk."""
    data = read_bytes(path, number * CHUNK_BYTES, (number + 1) * CHUNK_BYTES)
    body = data[data.find(b"\n") + 1 : data.rfind(b"\n") + 1]
    read = pa.csv.ReadOptions(use_threads=False, block_size=len(body) or 1, autogenerate_column_names=True)
    options = pa.csv.ParseOptions(delimiter="|")
    return len(pa.csv.read_csv(pa.BufferReader(body), read_options=read, parse_options=options)) if body else 0


def keystream_only(run: RunDirectory, number: int, words: int) -> int:
    return len(Keystream(bytes(32), nonce=number).words(0, words))


def write_only(run: RunDirectory, number: int, size: int) -> None:
    (run / f"written-{number}").write_bytes(bytes(size))


def pandas_counts(run: RunDirectory, number: int) -> int:
    """The exact counts of a partition as a user would write them: join, explode, group by. Checked for its sum."""
    partition = load_partitions(run)[number]
    persons, combinations = read_persons(run, partition.blocks)
    geography, iterations = load_geography(run / "public/geography"), load_parameters(run).iterations
    total = 0
    for name in partition.regions:
        flatmap = iterations.granularity(Level(name, 1)).flatmap(combinations).tocoo()
        belongs = pd.DataFrame({"combination": flatmap.row, "iteration": flatmap.col})
        table = pd.DataFrame({**persons, "region": geography.region_of[name][persons["block"]]})
        joined = table[table["region"] != NOWHERE].merge(belongs, on="combination")
        total += int(joined.groupby(["region", "iteration", "cell"]).size().sum())
    return total


def measure_run(run: RunDirectory, workers: Workers, params: str, data: str, region: Region, out: Path) -> dict:
    """Seconds of each stage, and the volumes that the bounds need."""
    seconds = {"validate": timed(lambda: validate(run, workers, params, data, region))}
    seconds["population groups"] = timed(lambda: count_population_groups(run, workers, region))
    levels = load_parameters(run).configuration.levels(region)
    check_budget(run, region, Charging(None, Path()), {})
    for name, stage in (("totals", measure_totals), ("sex by age", measure_sex_by_age), ("suppression", suppress)):
        seconds[name] = timed(lambda stage=stage: [stage(run, workers, level) for level in levels])
    seconds["coterminous"] = timed(lambda: equate_coterminous(run, workers, region, enabled=True, listed=None))
    seconds["release"] = timed(lambda: stage_release(run, workers, region, out, {}, "not asked for"))
    file: PersonFile = load_public(run / "public/person_file")
    rows = sum(json.loads(path.read_text())["rows"] for path in (run / "persons").glob("*.json"))
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    groups = sum(load_domain(run, level).groups for level in levels)
    return {"seconds": seconds, "persons": rows, "groups": groups, "release_bytes": size, "path": file.path}


def measure_bounds(run: RunDirectory, workers: Workers, measured: dict) -> dict[str, float]:
    """Seconds of the bounds, by the same workers."""
    chunks = range(chunk_count(load_public(run / "public/person_file")))
    path, words = measured["path"], 3 * measured["groups"]  # stage 1, stage 2 and their tables, roughly
    pieces = [(number, WORDS_EACH) for number in range(-(-words // WORDS_EACH))]
    share = measured["release_bytes"] // (n := 16)
    return {
        "read the bytes": timed(lambda: workers.map("bound", run, read_only, [(path, k) for k in chunks])),
        "parse with pyarrow": timed(lambda: workers.map("bound", run, parse_only, [(path, k) for k in chunks])),
        "make the keystream": timed(lambda: workers.map("bound", run, keystream_only, pieces)),
        "write the release": timed(lambda: workers.map("bound", run, write_only, [(k, share) for k in range(n)])),
    }


BOUND_OF = {"validate": "parse with pyarrow", "totals": "make the keystream", "release": "write the release"}


def measure_tabulation(run: RunDirectory) -> dict[str, float]:
    """Ours and pandas on the first partition, one process, counts made anew."""
    folders = list((run / "counts").glob("*/00000"))
    for folder in folders:
        shutil.rmtree(folder)
    ours, theirs = timed(lambda: count_partition(run, 0)), timed(lambda: pandas_counts(run, 0))
    exact = sum(int(np.load(folder / "data.npy").sum()) for folder in folders)
    assert exact == pandas_counts(run, 0), "the two programs disagree"
    return {"ours": ours, "pandas": theirs, "ratio": theirs / ours}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("params")
    parser.add_argument("data")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--region", choices=["us", "pr"], default="us")
    parser.add_argument("--scratch", type=Path, default=None, help="where the run directory goes")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    if read_parameters(chosen.params)[0] is None:
        parser.error(f"{chosen.params} has errors: das validate tells them")
    with tempfile.TemporaryDirectory(dir=chosen.scratch) as folder:
        run, out = RunDirectory(Path(folder) / "run"), Path(folder) / "out"
        run.create()
        with open_cluster(ClusterSettings(workers=chosen.workers), run / "dask") as client:
            workers = Workers(client)
            workers.map("warm up", run, keystream_only, [(k, 1) for k in range(4 * chosen.workers)])
            measured = measure_run(run, workers, chosen.params, chosen.data, chosen.region, out)
            bounds = measure_bounds(run, workers, measured)
        told = {
            "machine": f"{platform.machine()}, {platform.system()} {platform.release()}",
            "workers": chosen.workers,
            **measured,
            "bounds": bounds,
            "ratios": {stage: measured["seconds"][stage] / bounds[bound] for stage, bound in BOUND_OF.items()},
            "tabulation": measure_tabulation(run),
        }
    if chosen.json:
        print(json.dumps(told, indent=1))
        return
    print(f"{told['persons']:,} rows, {told['groups']:,} groups, {told['workers']} workers, {told['machine']}")
    for stage, seconds in told["seconds"].items():
        bound = BOUND_OF.get(stage)
        beside = f"   {seconds / bounds[bound]:5.1f} x {bound} ({bounds[bound]:.2f} s)" if bound else ""
        print(f"{stage:<20}{seconds:8.2f} s{beside}")
    print(f"{'(read the bytes)':<20}{bounds['read the bytes']:8.2f} s")
    tabulation = told["tabulation"]
    print(f"counts of one partition: ours {tabulation['ours']:.2f} s, pandas {tabulation['pandas']:.2f} s")


if __name__ == "__main__":
    main()
