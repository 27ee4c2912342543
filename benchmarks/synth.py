"""Synthetic persons a second: the commands as a user starts them, and each step alone on one core.

    .venv/bin/python benchmarks/synth.py                                  # 10 million of the nation; real tables
    .venv/bin/python benchmarks/synth.py --persons 334735155 --no-tables  # the whole nation: 27 GB of disk as text

Parameter files and block tables are those of $DAS_DATA, or of --data. `peak` is the summed PSS of all processes.
The bound of the text form is writing the same bytes and digesting them, measured in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
from measure import DATA, measure

from tasks.synth.nation import state_blocks
from tasks.synth.origins import published_counts, read_origins
from tasks.synth.parquet import person_table
from tasks.synth.people import Place, draw_people
from tasks.synth.synthesize import SHARES_FILE
from tasks.synth.tallies import tallies
from tasks.synth.text import person_rows

ROWS = 122_880


def command(work: Path, *words: str) -> dict[str, object]:
    """Run `das synth WORDS OUT`, measure it, and leave nothing behind."""
    out = work / "out"
    words = tuple(word.replace("OUT", str(out)) for word in words)
    measured = measure(
        [str(Path(sys.executable).parent / "das"), "synth", *words, "--json"], stdout=(work / "made").open("w")
    )
    if measured["returncode"]:
        raise SystemExit(f"das synth {' '.join(words)} failed")
    persons = json.loads((work / "made").read_text())["persons"]
    size = sum(path.stat().st_size for path in (out / "data").iterdir())
    shutil.rmtree(out)
    return {
        "command": "das synth " + " ".join(words),
        "persons": persons,
        "seconds": round(measured["seconds"], 2),
        "persons_per_second": round(persons / measured["seconds"]),
        "peak_mebibytes": round(measured["peak_bytes"] / 2**20),
        "bytes": size,
    }


def steps(params: Path, work: Path) -> dict[str, float]:
    """Persons a second of each step alone, on one core: the best of seven."""
    shares = params.parent / SHARES_FILE
    origins = read_origins(params, published_counts(shares) if shares.is_file() else None, most_codes=8)
    tally = tallies()["09"]
    blocks = state_blocks(tally, tally.persons, seed=0)
    place = Place(0, tally.persons, blocks.population.cumsum())

    def draw() -> object:
        return draw_people(place, origins, 0, ROWS, np.random.Generator(np.random.SFC64(1)))

    people = draw_people(place, origins, 0, ROWS, np.random.Generator(np.random.SFC64(1)))
    blocks = blocks.take(slice(0, int(people.block[-1]) + 1))
    text = person_rows(people, blocks, origins)

    def write() -> None:
        (work / "bytes").write_bytes(text)

    return {
        "draw the persons": rate(draw),
        "lay out text": rate(lambda: person_rows(people, blocks, origins)),
        "lay out Arrow": rate(lambda: person_table(people, blocks, origins)),
        "digest the text": rate(lambda: sha256(text).digest()),
        "write the text": rate(write),
    }


def rate(step: Callable[[], object]) -> float:
    times = []
    for _ in range(7):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return round(ROWS / min(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--persons", type=int, default=10_000_000, help="of the nation")
    parser.add_argument("--formats", nargs="+", default=["text", "parquet"], choices=["text", "parquet"])
    parser.add_argument("--no-tables", action="store_true", help="leave Rhode Island and Puerto Rico out")
    parser.add_argument("--data", type=Path, default=DATA, help="where params-2020-production and the tables are")
    parser.add_argument("--work", type=Path, help="a folder on the disk to write to")
    options = parser.parse_args()
    params = options.data / "params-2020-production"
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        work = Path(folder)
        nation = ["nation", "OUT", "--params", str(params), "--persons", str(options.persons)]
        runs = [command(work, *nation, "--format", form) for form in options.formats]
        for state in [] if options.no_tables else ["ri", "pr"]:
            table = options.data / f"{state}_blocks_2020.csv.gz"
            runs.append(command(work, str(table), str(params), "OUT"))
        machine = f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}"
        print(json.dumps({"machine": machine, "runs": runs, "steps": steps(params, work)}, indent=2))


if __name__ == "__main__":
    main()
