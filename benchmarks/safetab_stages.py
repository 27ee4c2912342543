"""Processor seconds of every stage of `das run` or `das ddhcb run`, in one process with kernels loaded before.

    python benchmarks/safetab_stages.py DATA RUNS [--totals RELEASE]

DATA as `das synth nation … --record-format parquet --for detailed-dhca --for ddhcb` makes it, RUNS an empty folder or
one of an earlier call. The first stages are run twice, so that the kernels are compiled and loaded before; start-up is
left out. `per record` are nanoseconds. Also what the stages cannot go below: Arrow's decoding of the records' columns.
With --totals, a release of the Detailed DHC-A of the same persons: of the Detailed DHC-B.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
from measure import arguments
from top_down_stages import Here

from flows.execution.runner import InProcess
from flows.execution.safetab_settings import DetailedDhcaSettings, DetailedDhcbSettings, SafeTabSettings
from tasks.lifecycle.files import remove
from tasks.lifecycle.process import use_kernels
from tasks.lifecycle.workers import Workers


def stages(kind: type[SafeTabSettings], runs: Path, before: str, **given: Any) -> dict[str, float]:
    """Run the stages before one; return their processor seconds by name, all levels together, and those elsewhere."""
    with tempfile.TemporaryDirectory(dir=runs.parent) as folder:
        place = {"out": f"{folder}/out", "runs_folder": str(runs), "ledger": f"{folder}/ledger.sqlite"}
        settings = kind.new(**place, run_id=f"stages-{Path(folder).name}", jurisdiction="us", **given)
        here, run = Here(), settings.directory
        run.create()
        try:
            began = time.process_time()
            InProcess(settings, cast(Workers, here), before=before).run()
            total = time.process_time() - began
        finally:
            remove(run.path)
    found: dict[str, float] = {}
    for name, seconds in here.seconds.items():
        stage = name.partition(" (")[0]
        found[stage] = found.get(stage, 0.0) + seconds
    return found | {"elsewhere": total - sum(found.values()), "total": total}


def decoding(path: Path) -> float:
    """Return the processor seconds of reading all columns of a Parquet file by their dictionaries."""
    file = pq.ParquetFile(path, read_dictionary=pq.read_schema(path).names)
    began = time.process_time()
    for number in range(file.num_row_groups):
        file.read_row_group(number, use_threads=False)
    return time.process_time() - began


def main() -> None:
    """Measure, and print JSON."""
    words = arguments(__doc__)
    words.add_argument("data", type=Path)
    words.add_argument("runs", type=Path)
    words.add_argument("--totals")
    given = words.parse_args()
    given.runs.mkdir(mode=0o700, parents=True, exist_ok=True)
    use_kernels(given.runs)
    system, noun = ("ddhcb", "household") if given.totals else ("detailed-dhca", "person")
    kind: type[SafeTabSettings] = DetailedDhcbSettings if given.totals else DetailedDhcaSettings
    options = {"totals": given.totals} if given.totals else {"spine": False}
    data = {"params": str(given.data / "params"), "data": str(given.data / system)}
    stages(kind, given.runs, "reserve budget", **data, **options)
    found = stages(kind, given.runs, "commit", **data, **options)
    records = given.data / system / f"{noun}-records.parquet"
    found["Arrow's decoding alone"] = decoding(records)
    rows = pq.read_metadata(records).num_rows
    each = {name: round(seconds / rows * 1e9) for name, seconds in found.items()}
    print(json.dumps({"records": rows, "processor_seconds": found, "per_record": each}, indent=1))


if __name__ == "__main__":
    main()
