"""Every stage of a run and its physical bound, measured in one run on one machine.

    python benchmarks/stages.py PARAMS DATA [--workers 2] [--jurisdiction us] [--scratch DIR] [--estimates] [--json]

PARAMS and DATA as `das synth` makes them (synthetic: nothing is charged). A bound is what the same workers need for the
least that a stage must do: to parse its text, or decode its Parquet, with pyarrow alone, to read and write its bytes,
to make its keystream. Processor seconds are those of the workers and of this process, the scheduler's included.
`tabulation` compares the exact counts of one partition, the one with the most persons, with the plainest correct pandas
program. The first measurement of an installation compiles kernels, so make another.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from measure import arguments, machine

from flows.execution.cluster import ClusterSettings, open_cluster
from flows.execution.runner import InProcess
from flows.execution.safetab_settings import DetailedDhcaSettings
from privacy.noise.randomness import Keystream
from tasks.detailed_dhca.person import PERSON
from tasks.detailed_dhca.run import Configuration, DetailedRun
from tasks.inputs.files import read_bytes
from tasks.inputs.grf_c import NOWHERE
from tasks.inputs.marks import GRF_FILE
from tasks.lifecycle.digests import CHUNK_BYTES
from tasks.lifecycle.files import open_array
from tasks.lifecycle.workers import Workers
from tasks.population_groups.count import count_partition, load_partitions, read_records
from tasks.population_groups.domain import load_domain
from tasks.population_groups.encode import encoded_chunks
from tasks.population_groups.levels import Level
from tasks.population_groups.parameters import read_parameters

WORDS_EACH = 1 << 22


def timed(function: Callable[[], Any]) -> float:
    """Seconds that a call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def begin(folder: str, **options: Any) -> DetailedDhcaSettings:
    """Make the directory of a run without a spine, with all that it writes in a folder; returns its settings."""
    places = {"out": f"{folder}/out", "state": folder, "ledger": f"{folder}/ledger.sqlite"}
    settings = DetailedDhcaSettings.new(**places, **options, run_id="run", spine=False)
    settings.directory.create()
    return settings


def read_only(run: DetailedRun, path: str, number: int) -> int:
    return len(read_bytes(path, number * CHUNK_BYTES, (number + 1) * CHUNK_BYTES))


def parse_only(run: DetailedRun, path: str, number: int) -> int:
    """pyarrow with its own defaults but the delimiter, over the whole lines of a chunk."""
    data = read_bytes(path, number * CHUNK_BYTES, (number + 1) * CHUNK_BYTES)
    body = data[data.find(b"\n") + 1 : data.rfind(b"\n") + 1]
    read = pa.csv.ReadOptions(use_threads=False, autogenerate_column_names=True)
    options = pa.csv.ParseOptions(delimiter="|")
    return len(pa.csv.read_csv(pa.BufferReader(body), read_options=read, parse_options=options)) if body else 0


def decode_only(run: DetailedRun, path: str, number: int) -> int:
    """pyarrow with its own defaults but dictionaries, over a row group."""
    return len(pq.ParquetFile(path, read_dictionary=list(PERSON.fields)).read_row_group(number))


def keystream_only(run: DetailedRun, number: int, words: int) -> int:
    return len(Keystream(bytes(32), nonce=number).words(0, words))


def copy_only(run: DetailedRun, number: int, folder: str, read: int, write: int) -> None:
    """Read what an earlier call left, `read` bytes of it, and write `write` bytes."""
    scratch = run / folder
    scratch.mkdir(exist_ok=True)
    path = scratch / str(number)
    if read:
        with open(path, "rb") as stream:
            stream.read(read)
    path.write_bytes(bytes(write))


def pandas_counts(run: DetailedRun, number: int) -> int:
    """The exact counts of a partition as a user would write them: join, explode, group by. Checked for its sum."""
    partition = load_partitions(run)[number]
    persons = read_records(run, partition.blocks)
    geography, iterations = run.geography, run.parameters.iterations
    total = 0
    for name in partition.regions:
        flatmap = iterations.granularity(Level(name, 1)).flatmap(persons.combinations).tocoo()
        belongs = pd.DataFrame({"combination": flatmap.row, "iteration": flatmap.col})
        region = geography.region_of[name][partition.blocks][persons.block]
        table = pd.DataFrame({"region": region, "cell": persons.cell, "combination": persons.combination})
        joined = table[table["region"] != NOWHERE].merge(belongs, on="combination")
        total += int(joined.groupby(["region", "iteration", "cell"]).size().sum())
    return total


def processor_seconds(workers: Workers) -> float:
    """Processor seconds of this process and the workers so far."""
    return time.process_time() + sum(workers.client.run(time.process_time).values())


def volume(folder: Path, pattern: str) -> int:
    """Bytes of the files below a folder."""
    return sum(path.stat().st_size for path in folder.glob(pattern) if path.is_file())


class Measured(InProcess[DetailedDhcaSettings]):
    """Takes the seconds and processor seconds of each stage, all levels together."""

    def __init__(self, settings: DetailedDhcaSettings, workers: Workers) -> None:
        super().__init__(settings, workers, before="commit")
        self.seconds: Counter[str] = Counter()
        self.processor: Counter[str] = Counter()

    def call(self, name: str, function: Callable[[], Any]) -> Any:
        """Call a stage, and take its time."""
        stage = name.partition(" (")[0]
        start, used = time.perf_counter(), processor_seconds(self.workers)
        result = function()
        self.seconds[stage] += time.perf_counter() - start
        self.processor[stage] += processor_seconds(self.workers) - used
        return result


def measure_run(settings: DetailedDhcaSettings, workers: Workers) -> dict:
    """Seconds and processor seconds of each stage, and the volumes that the bounds need."""
    run, out = settings.directory, Path(settings.out)
    runner = Measured(settings, workers)
    runner.run()
    domains = [load_domain(run, level) for level in run.parameters.configuration.levels(settings.jurisdiction)]
    return {
        "seconds": runner.seconds,
        "processor_seconds": runner.processor,
        "persons": sum(len(open_array(chunk, "block")) for chunk in encoded_chunks(run)),
        "groups": sum(domain.groups for domain in domains),
        "pieces": sum(len(domain.pieces()) for domain in domains),
        "total_only_groups": sum(domain.groups for domain in domains if domain.total_only.any()),
        "bytes": {
            "input": volume(Path(settings.data), "*.*"),
            "persons": volume(run / "records", "*/*.npy"),
            "counts": volume(run / "counts", "*/*/*.npy"),
            "details": volume(run / "noisy", "*/totals/*/*.npy"),
            "tables": volume(run / "noisy", "*/sex_by_age/*/*.npy"),
            "estimates": volume(run / "noisy", "*/*estimates/*/*.npy"),
            "published": volume(run / "noisy", "*/published/*/*.npy"),
            "final": volume(run / "noisy", "*/final/*/*.npy"),
            "release": volume(out, "**/*"),
        },
    }


def measure_bounds(run: DetailedRun, workers: Workers, data: str, measured: dict) -> dict[str, float]:
    """Seconds of the least that each stage must do, by the same workers."""
    size, groups = measured["bytes"], measured["groups"]
    persons, geography = run.records, f"{data}/{GRF_FILE}"
    whole = [
        (path, k) for path in (persons.path, geography) for k in range(-(-Path(path).stat().st_size // CHUNK_BYTES))
    ]
    table_words = size["tables"] // 8 + measured["total_only_groups"]  # 8 bytes a noisy number, one word each

    def parsed() -> None:
        if persons.parquet:
            workers.map("bound", run, decode_only, [(persons.path, k) for k in range(persons.chunks)])
        text = [(path, k) for path, k in whole if path == geography or not persons.parquet]
        workers.map("bound", run, parse_only, text)

    def copied(read: int, write: int) -> float:
        folder, pieces = f"bound-{uuid4().hex}", measured["pieces"]
        share = (read // pieces, write // pieces)
        workers.map("bound", run, copy_only, [(k, folder, 0, share[0]) for k in range(pieces)])
        return timed(lambda: workers.map("bound", run, copy_only, [(k, folder, *share) for k in range(pieces)]))

    def keystream(words: int) -> float:
        calls = [(k, WORDS_EACH) for k in range(-(-words // WORDS_EACH))]
        return timed(lambda: workers.map("bound", run, keystream_only, calls))

    return {
        "read the files": timed(lambda: workers.map("bound", run, read_only, whole)),
        "validate": timed(parsed),
        "population groups": copied(size["persons"], size["counts"]),
        "totals": keystream(groups) + copied(size["counts"], size["details"]),
        "sex by age": keystream(table_words) + copied(size["counts"], size["tables"]),
        "suppression": copied(size["details"] + size["tables"], size["published"]),
        "coterminous": copied(size["published"], size["final"]),
        "release": copied(size["final"], size["release"]),
    }


def measure_tabulation(run: DetailedRun) -> dict[str, float]:
    """Ours and pandas on the partition with the most persons, one process, counts made anew."""
    persons = [len(read_records(run, partition.blocks).block) for partition in load_partitions(run)]
    number = int(np.argmax(persons))
    folders = list((run / "counts").glob(f"*/{number:05d}"))
    for folder in folders:
        shutil.rmtree(folder)
    ours, theirs = timed(lambda: count_partition(run, number)), timed(lambda: pandas_counts(run, number))
    exact = sum(int(np.load(folder / "data.npy").sum()) for folder in folders)
    assert exact == pandas_counts(run, number), "the two programs disagree"
    return {"persons": persons[number], "ours": ours, "pandas": theirs, "ratio": theirs / ours}


def costs(measured: dict, workers: int) -> dict[str, float]:
    """Core-seconds of each stage for a million persons, from GRF-C's end on, or population groups."""
    each = {"validate": "persons", "population groups": "persons"}
    return {
        stage: seconds * workers / (measured[each.get(stage, "groups")] / 1e6)
        for stage, seconds in measured["seconds"].items()
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("params")
    parser.add_argument("data")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--jurisdiction", choices=["us", "pr"], default="us")
    parser.add_argument("--scratch", type=Path, default=None, help="where the run directory goes")
    parser.add_argument("--estimates", action="store_true", help="of a run that makes estimates; these have no bound")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    if read_parameters(chosen.params, Configuration)[0] is None:
        parser.error(f"{chosen.params} has errors: das validate lists them")
    with tempfile.TemporaryDirectory(dir=chosen.scratch) as folder:
        inputs = {"params": chosen.params, "data": chosen.data, "jurisdiction": chosen.jurisdiction}
        settings = begin(folder, **inputs, estimates=chosen.estimates)
        run = settings.directory
        with open_cluster(ClusterSettings(workers=chosen.workers), run / "dask") as client:
            workers = Workers(client)
            workers.map("warm up", run, keystream_only, [(k, 1) for k in range(4 * chosen.workers)])
            measured = measure_run(settings, workers)
            bounds = measure_bounds(run, workers, chosen.data, measured)
        seconds = measured["seconds"]
        facts = {
            "machine": machine(),
            "workers": chosen.workers,
            **measured,
            "bounds": bounds,
            "ratios": {stage: seconds[stage] / bound for stage, bound in bounds.items() if stage in seconds},
            "core_seconds_a_million": costs(measured, chosen.workers),
            "tabulation": measure_tabulation(run),
        }
    print(json.dumps(facts, indent=1) if chosen.json else table(facts))


def table(facts: dict) -> str:
    """The stages with their bounds, for a reader."""
    lines = [
        f"{facts['persons']:,} persons, {facts['groups']:,} groups, {facts['workers']} workers, {facts['machine']}",
        f"{'stage':<20}{'processor s':>12}{'seconds':>9}{'bound':>9}{'ratio':>8}",
    ]
    lines += [
        f"{stage:<20}{facts['processor_seconds'][stage]:12.2f}{seconds:9.2f}"
        + (f"{facts['bounds'][stage]:9.2f}{facts['ratios'][stage]:8.1f}" if stage in facts["bounds"] else "")
        for stage, seconds in facts["seconds"].items()
    ]
    tabulation = facts["tabulation"]
    return "\n".join(
        [
            *lines,
            f"(reading the files alone: {facts['bounds']['read the files']:.2f} s)",
            f"counts of {tabulation['persons']:,} persons, one process: ours {tabulation['ours']:.2f} s, "
            f"pandas {tabulation['pandas']:.2f} s ({tabulation['ratio']:.1f} times)",
        ]
    )


if __name__ == "__main__":
    main()
