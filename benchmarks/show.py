"""How fast `das show` answers over a release, and how much memory that takes.

    python benchmarks/show.py RELEASE [--answers 200]      # a release as it is
    python benchmarks/show.py RELEASE --nation FOLDER      # makes FOLDER first, of a nation's size, after RELEASE

A nation has the laws and iterations of the model, 9.2 million published groups (2020's number, docs/scale.md) spread
over made-up regions, and made-up counts: only its size is meant. Addresses are drawn at random from the release's own
regions and iterations; each is asked for once. At every fifth group there is also a search with a typing error, and of
another iteration a map of all counties, one of the tracts of a state, and all counties with all ages to take away.
"""

from __future__ import annotations

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
import pyarrow.parquet as pq
from measure import DAS, arguments

from tasks.detailed_dhca.details import WIDTHS
from tasks.detailed_dhca.release import CountMargins, t1_tables, t2_tables
from tasks.detailed_dhca.suppression import PublishedGroups
from tasks.inputs.points import POINTS
from tasks.lifecycle.digests import file_digest
from tasks.lifecycle.staging import drafts
from tasks.population_groups.description import ITERATIONS
from tasks.population_groups.description import REGIONS as TABULATED
from tasks.population_groups.domain import Domain
from tasks.population_groups.group_tables import write_table
from tasks.population_groups.levels import ALL_LEVELS, Level

LEVELS = {str(level): level for level in ALL_LEVELS}

STATES = [f"{code:02d}" for code in range(1, 57) if code not in (3, 7, 14, 43, 52)]
REGIONS = {"USA": 1, "STATE": 51, "COUNTY": 3_143, "TRACT": 84_414, "PLACE": 31_617, "AIANNH": 704}
PUBLISHED = {  # groups per region; (level, iteration level), so that they sum to 9.2 million
    **{("USA", 1): 52, ("USA", 2): 2944, ("STATE", 1): 52, ("STATE", 2): 2944, ("COUNTY", 1): 30, ("COUNTY", 2): 400},
    **{("TRACT", 1): 6, ("TRACT", 2): 58, ("PLACE", 1): 8, ("PLACE", 2): 62, ("AIANNH", 1): 15, ("AIANNH", 2): 150},
}
SHARES = (0.9, 0.08, 0.015, 0.005)  # of the published, by table; 2020's tables are about as rare
AT_ONCE = 100_000  # groups that are drawn
MISSPELT = ("provdence", "californa", "harford", "mexcan", "los angelos", "itallian")


def make(model: Path, out: Path, seed: int = 1) -> None:
    """Write a release of a nation's size."""
    manifest = json.loads((model / "manifest.json").read_text())
    manifest.pop("estimates", None)  # the nation made here has counts alone
    draw = np.random.default_rng(seed)
    for name, result in manifest["levels"].items():
        level = LEVELS[name]
        codes = pq.read_table(
            model / f"parquet/t1/{'usa' if level.nation_or_state else 'county'}-{level.iteration_level}.parquet"
        )
        codes = np.unique(codes["ITERATION_CODE"].to_numpy())
        ids = region_ids(level.region_type)
        each = min(PUBLISHED[level.region_type, level.iteration_level], len(codes))
        write_level(out, level, ids, codes, each, draw)
        result["regions"] = len(ids)
        print(f"{level.slug}: {len(ids) * each:,} groups", file=sys.stderr)
    (out / "tabulated").mkdir()
    regions = [f"{kind}|{region}" for kind in REGIONS for region in region_ids(kind)]
    (out / TABULATED.text).write_text("\n".join(["REGION_TYPE|REGION_ID", *regions, ""]))
    shutil.copy(model / ITERATIONS.text, out / ITERATIONS.text)
    files = [ITERATIONS.text, TABULATED.text, *(str(path.relative_to(out)) for path in out.glob("parquet/*/*.parquet"))]
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


def write_level(out: Path, level: Level, ids: np.ndarray, codes: np.ndarray, each: int, draw: np.random.Generator):
    """Write t1 and t2 of a level, `each` groups a region."""
    made = []
    step = max(1, AT_ONCE // each)
    for start in range(0, len(ids), step):
        region = np.arange(start, min(start + step, len(ids)))
        chosen = np.sort(np.argsort(draw.random((len(region), len(codes))), axis=1)[:, :each], axis=1)
        group = (region[:, None] * len(codes) + chosen).ravel()
        detail = draw.choice(4, size=len(group), p=SHARES).astype(np.uint8)
        total = (draw.pareto(0.8, len(group)) * 40 + 22).astype(np.int64)
        cells = np.full(int(PublishedGroups.CELLS[detail].sum()), 20)
        made.append(PublishedGroups(group, detail, np.zeros_like(detail), cells, total))
    iterations = np.arange(len(codes)), tuple(codes.tolist()), np.zeros(len(codes), bool)
    domain = Domain(level, tuple(ids.tolist()), *iterations)
    one = np.full((1, len(WIDTHS)), 11)
    margins = CountMargins(total=(one * np.sqrt(WIDTHS)).astype(np.int64), sex=one, cell=one)
    for table, tables in (("t1", t1_tables), ("t2", t2_tables)):
        write_table(out, PublishedGroups, table, level, tables(domain, made, margins, clip=False))
    drafts(out).rmdir()


def measure(release: Path, answers: int) -> dict[str, object]:
    """Start `das show` and ask it."""
    start = time.perf_counter()
    command = [DAS, "show", str(release), "--port", "0", "--no-browser"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        while not (url := re.search(r"http://127\.0\.0\.1:\d+/\w+/", line := server.stderr.readline())):
            if not line:
                raise SystemExit("das show ended")
        urllib.request.install_opener(urllib.request.build_opener(urllib.request.HTTPCookieProcessor()))
        ask(next(word for word in line.split() if word.startswith(url[0])))  # with the token
        announced = time.perf_counter() - start
        process, most, seconds, busy = psutil.Process(server.pid), 0, {}, {}
        begun = sum(process.cpu_times()[:2])
        start = time.perf_counter()
        ask(url[0])
        first = time.perf_counter() - start
        for kind, address in addresses(release, answers):
            before, used = time.perf_counter(), sum(process.cpu_times()[:2])
            ask(url[0] + address)
            seconds.setdefault(kind, []).append(time.perf_counter() - before)
            busy.setdefault(kind, []).append(sum(process.cpu_times()[:2]) - used)
            most = max(most, process.memory_full_info().uss)
    finally:
        server.terminate()
        server.wait()
    flat = [time_of_one for times in seconds.values() for time_of_one in times]
    used = [time_of_one for times in busy.values() for time_of_one in times]
    result = {
        kind: [round(1000 * result) for result in (median(times), max(times), sum(busy[kind]) / len(times))]
        for kind, times in seconds.items()
    }
    return {
        "groups": sum(pq.read_metadata(path).num_rows for path in (release / "parquet/t1").glob("*.parquet")),
        "until the page is announced, s": round(announced, 2),
        "of it processor time, s": round(begun, 2),
        "first answer, ms": round(1000 * first),
        "answers": len(flat),
        "median, ms": round(1000 * median(flat)),
        "slowest, ms": round(1000 * max(flat)),
        "processor time, mean and most ms": [round(1000 * sum(used) / len(used)), round(1000 * max(used))],
        "median, slowest and mean processor time by view, ms": result,
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

    def group(level: str = "") -> str:
        file = pq.ParquetFile(draw.choice([path for path in files if path.stem.startswith(level)]))
        part = file.read_row_group(
            draw.randrange(file.num_row_groups), columns=["REGION_TYPE", "REGION_ID", "ITERATION_CODE"]
        )
        row = part.slice(draw.randrange(len(part)), 1).to_pylist()[0]
        return f"{row['REGION_TYPE']}/{row['REGION_ID']}/{row['ITERATION_CODE']}"

    for number in range(answers // 4):
        kind, region, code = group().split("/")
        yield "group", f"?view=group/{kind}/{region}/{code}"
        yield "region", f"?view=region/{kind}/{region}"
        yield "iteration", f"?view=code/ITERATION_CODE/{code}"
        yield "find", f"?view=find&q={draw.choice([region, code, 'rhode island', 'county'])}".replace(" ", "+")
        if number % 5 == 0 and any(path.stem.startswith("tract") for path in files):
            (*_, code), (_, tract, other) = group("county-2").split("/"), group("tract-2").split("/")
            yield "typing error", f"?view=find&q={draw.choice(MISSPELT)}".replace(" ", "+")
            yield "map of counties", f"?view=table-map/t1-county-2&by_ITERATION_CODE={code}"
            if (release / POINTS.file).exists():
                by = f"by_ITERATION_CODE={other}&by_REGION_ID={tract[:2]}*"
                yield "map of a state's tracts", f"?view=table-map/t1-tract-2&{by}"
            for form in ("csv", "xlsx"):
                table = "t2-county-2&by_ITERATION_CODE"
                yield f"all counties, {form}", f"?view=table/{table}={code}&format={form}"


def main() -> None:
    parser = arguments(__doc__)
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
