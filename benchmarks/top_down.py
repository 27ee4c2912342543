"""The TopDown Algorithm from files to release: synthetic persons on a state's real blocks, seconds and peak memory.

    python benchmarks/top_down.py                    # Rhode Island and Wisconsin, from DAS_DATA (README)
    python benchmarks/top_down.py ri2020.pl.zip ...  # other block tables
    python benchmarks/top_down.py --accuracy         # with the errors on three spines (das tda accuracy)

Each is run twice: the first run compiles the kernels. Start-up of Prefect and Dask is included.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from measure import DATA, arguments, held, measure

STATES = ("ri_blocks_2020.csv.gz", "wi_blocks_2020.csv.gz")


def main() -> None:
    words = arguments(__doc__)
    words.add_argument("geography", nargs="*", default=[str(DATA / name) for name in STATES])
    words.add_argument("--workers", type=int, default=2)
    words.add_argument("--accuracy", action="store_true")
    given = words.parse_args()
    for geography in given.geography:
        with tempfile.TemporaryDirectory() as folder:
            data, state = Path(folder) / "data", ["--state", f"{folder}/state", "--workers", str(given.workers)]
            measure(["das", "tda", "synth", geography, str(data)])
            for number in (1, 2):
                run = ["das", "tda", "run", str(data), f"{folder}/out{number}", *state]
                result = measure(run, Path(folder) / "state")
                released = held(Path(folder, f"out{number}"))
                print(json.dumps({"geography": geography, "run": number, **result, "released_bytes": released}))
            if given.accuracy:
                print(json.dumps(measure(["das", "tda", "accuracy", str(data), f"{folder}/errors", *state])))
                print(Path(folder, "errors/error.csv").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
