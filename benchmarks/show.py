"""How fast `das show` answers over a release, and how much memory that takes.

    python benchmarks/show.py RELEASE [--answers 200]      # a release as it is
    python benchmarks/show.py RELEASE --nation FOLDER      # makes FOLDER first, of a nation's size, after RELEASE

A nation has the laws and iterations of the model, 9.2 million published groups (2020's number, docs/scale.md) spread
over made-up regions, and made-up counts: only its size is meant. Addresses are drawn at random from the release's own
regions and iterations; each is asked for once.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.detailed_dhca.details import AGES, LAST_AGE, WIDTHS
from tasks.inputs.configuration import ALL_LEVELS
from tasks.lifecycle.digests import file_digest
from tasks.population_groups.tabulated import ITERATIONS_FILE, REGIONS_FILE

LEVELS = {str(level): level for level in ALL_LEVELS}

STATES = [f"{code:02d}" for code in range(1, 57) if code not in (3, 7, 14, 43, 52)]
REGIONS = {"USA": 1, "STATE": 51, "COUNTY": 3_143, "TRACT": 84_414, "PLACE": 31_617, "AIANNH": 704}
PUBLISHED = {  # groups per region; (level, iteration level), so that they sum to 9.2 million
    **{("USA", 1): 52, ("USA", 2): 2944, ("STATE", 1): 52, ("STATE", 2): 2944, ("COUNTY", 1): 30, ("COUNTY", 2): 400},
    **{("TRACT", 1): 6, ("TRACT", 2): 58, ("PLACE", 1): 8, ("PLACE", 2): 62, ("AIANNH", 1): 15, ("AIANNH", 2): 150},
}
SHARES = (0.9, 0.08, 0.015, 0.005)  # of the published, by table; 2020's tables are about as rare
AT_ONCE = 100_000  # groups, as a release is written


def make(model: Path, out: Path, seed: int = 1) -> None:
    """Write a release of a nation's size."""
    manifest = json.loads((model / "manifest.json").read_text())
    manifest.pop("estimates", None)  # the nation made here has counts alone
    draw = np.random.default_rng(seed)
    for name, told in manifest["levels"].items():
        level = LEVELS[name]
        codes = pq.read_table(
            model / f"parquet/t1/{'usa' if level.nation_or_state else 'county'}-{level.iteration_level}.parquet"
        )
        codes = np.unique(codes["ITERATION_CODE"].to_numpy())
        ids = region_ids(level.region_type)
        each = min(PUBLISHED[level.region_type, level.iteration_level], len(codes))
        write_level(out, level, ids, codes, each, draw)
        told["regions"] = len(ids)
        print(f"{level.slug}: {len(ids) * each:,} groups", file=sys.stderr)
    (out / "tabulated").mkdir()
    regions = [f"{kind}|{region}" for kind in REGIONS for region in region_ids(kind)]
    (out / REGIONS_FILE).write_text("\n".join(["REGION_TYPE|REGION_ID", *regions, ""]))
    shutil.copy(model / ITERATIONS_FILE, out / ITERATIONS_FILE)
    files = [ITERATIONS_FILE, REGIONS_FILE, *(str(path.relative_to(out)) for path in out.glob("parquet/*/*.parquet"))]
    manifest["coterminous_sets"], manifest["files"] = [], {name: file_digest(out / name) for name in sorted(files)}
    (out / "manifest.json").write_text(json.dumps(manifest))


def region_ids(region_type: str) -> np.ndarray:
    """Sorted ids of as many regions as the country has."""
    number = np.arange(REGIONS[region_type])
    state = np.array(STATES)[number * 51 // REGIONS[region_type]] if region_type != "USA" else None
    within = [f"{one:05d}" for one in number]
    match region_type:
        case "USA":
            return np.array(["1"])
        case "STATE":
            return np.array(STATES)
        case "COUNTY":
            return np.array(sorted({f"{s}{int(n) % 1000:03d}" for s, n in zip(state, within, strict=True)}))
        case "PLACE":
            return np.array([f"{s}{n}" for s, n in zip(state, within, strict=True)])
        case "AIANNH":
            return np.array([f"{one:04d}" for one in number])
        case _:
            counties = region_ids("COUNTY")
            return np.array([f"{counties[one * len(counties) // REGIONS['TRACT']]}{one:06d}" for one in number])


def write_level(out: Path, level, ids, codes, each, draw) -> None:
    """Write t1 and t2 of a level, a batch of regions at a time."""
    paths = [out / f"parquet/{table}/{level.slug}.parquet" for table in ("t1", "t2")]
    writers: list[pq.ParquetWriter] = []
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    step = max(1, AT_ONCE // each)
    for start in range(0, len(ids), step):
        some = ids[start : start + step]
        chosen = np.sort(np.argsort(draw.random((len(some), len(codes))), axis=1)[:, :each], axis=1)
        region, code = np.repeat(some, each), codes[chosen.ravel()]
        shape = draw.choice(4, size=len(code), p=SHARES)
        count = (draw.pareto(0.8, len(code)) * 40 + 22).astype(np.int64)
        cells = WIDTHS[:4][shape]
        t1 = {"REGION_ID": region, "REGION_TYPE": np.full(len(code), level.region_type), "ITERATION_CODE": code}
        tables = [pa.table({**t1, "COUNT": count, "MOE": (11 * np.sqrt(cells)).astype(np.int64)})]
        rows = np.where(shape > 0, cells + 2, 0)
        where = np.repeat(np.arange(len(code)), rows)
        labels = [label for one in shape if one for label in LABELS[one]]
        age, end, sex = (np.array(column) for column in zip(*labels, strict=True)) if labels else ([], [], [])
        t2 = {name: column[where] for name, column in t1.items()} | {"AGESTART": age, "AGEEND": end, "SEX": sex}
        ones = np.ones(len(where), np.int64)
        tables.append(pa.table({**t2, "COUNT": ones * 20, "MOE": ones * 11}))
        if not writers:
            writers = [
                pq.ParquetWriter(path, table.schema, compression="zstd")
                for path, table in zip(paths, tables, strict=True)
            ]
        for writer, table in zip(writers, tables, strict=True):
            writer.write_table(table.cast(writer.schema))
    for writer in writers:
        writer.close()


def labels(detail: int) -> list[tuple[str, str, str]]:
    """(AGESTART, AGEEND, SEX) of a T2 table's rows."""
    starts = AGES[detail]
    ends = [start - 1 for start in starts[1:]] + [LAST_AGE]
    ages = [("*", "*"), *((str(start), str(end)) for start, end in zip(starts, ends, strict=True))]
    return [(start, end, sex) for start, end in ages for sex in "12"]


LABELS = {detail: labels(detail) for detail in (1, 2, 3)}


def measure(release: Path, answers: int) -> dict[str, object]:
    """Start `das show` and ask it."""
    das = Path(sys.executable).parent / "das"
    start = time.perf_counter()
    command = [das, "show", release, "--port", "0", "--no-browser"]
    server = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        while not (url := re.search(r"http://127\.0\.0\.1:\d+/", line := server.stderr.readline())):
            if not line:
                raise SystemExit("das show ended")
        announced = time.perf_counter() - start
        process, most, seconds, busy = psutil.Process(server.pid), 0, {}, []
        begun = sum(process.cpu_times()[:2])
        start = time.perf_counter()
        ask(url[0])
        first = time.perf_counter() - start
        for kind, address in addresses(release, answers):
            before, used = time.perf_counter(), sum(process.cpu_times()[:2])
            ask(url[0] + address)
            seconds.setdefault(kind, []).append(time.perf_counter() - before)
            busy.append(sum(process.cpu_times()[:2]) - used)
            most = max(most, process.memory_full_info().uss)
    finally:
        server.terminate()
        server.wait()
    flat = [time_of_one for times in seconds.values() for time_of_one in times]
    told = {kind: [round(1000 * median(times)), round(1000 * max(times))] for kind, times in seconds.items()}
    return {
        "groups": sum(pq.read_metadata(path).num_rows for path in (release / "parquet/t1").glob("*.parquet")),
        "until the page is announced, s": round(announced, 2),
        "of it processor time, s": round(begun, 2),
        "first answer, ms": round(1000 * first),
        "answers": len(flat),
        "median, ms": round(1000 * median(flat)),
        "slowest, ms": round(1000 * max(flat)),
        "processor time, mean and most ms": [round(1000 * sum(busy) / len(busy)), round(1000 * max(busy))],
        "median and slowest by view, ms": told,
        "memory, MiB": round(most / 2**20),
    }


def ask(address: str) -> None:
    """Fetch a page."""
    with urllib.request.urlopen(address) as answer:
        answer.read()


def addresses(release: Path, answers: int) -> Iterator[tuple[str, str]]:
    """Addresses of every kind of view, drawn from the published groups."""
    draw = random.Random(1)
    files = [path for path in sorted((release / "parquet/t1").glob("*.parquet")) if pq.read_metadata(path).num_rows]

    def group() -> str:
        file = pq.ParquetFile(draw.choice(files))
        part = file.read_row_group(
            draw.randrange(file.num_row_groups), columns=["REGION_TYPE", "REGION_ID", "ITERATION_CODE"]
        )
        row = part.slice(draw.randrange(len(part)), 1).to_pylist()[0]
        return f"{row['REGION_TYPE']}/{row['REGION_ID']}/{row['ITERATION_CODE']}"

    for _ in range(answers // 5):
        first, second = group(), group()
        kind, region, code = first.split("/")
        yield "group", f"?view=group/{first}"
        yield "compare", f"?view=compare&a={first}&b={second}"
        yield "region", f"?view=region/{kind}/{region}"
        yield "iteration", f"?view=iteration/{code}"
        yield "find", f"?view=find&q={draw.choice([region, code, 'rhode island', 'county'])}".replace(" ", "+")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", type=Path)
    parser.add_argument(
        "--nation", type=Path, metavar="FOLDER", help="make a release of a nation's size here, and measure it"
    )
    parser.add_argument("--answers", type=int, default=200)
    asked = parser.parse_args()
    if asked.nation and not asked.nation.exists():
        make(asked.release, asked.nation)
    print(json.dumps(measure(asked.nation or asked.release, asked.answers), indent=1))


if __name__ == "__main__":
    main()
