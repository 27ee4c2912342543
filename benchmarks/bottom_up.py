"""Time the bottom-up mechanism over a large synthetic table of four factors.

    .venv/bin/python benchmarks/bottom_up.py                            # 10 million rows, Parquet, 612,000 cells
    .venv/bin/python benchmarks/bottom_up.py --rows 10000000 --text     # the same as text

Tabulation, reservation, noise in every cell, calibration to state totals, release and commit are all timed, with
Prefect's and Dask's start.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
from measure import arguments, describe, measure_das

from tasks.bottom_up.example import DECLARATION, TABLE, TOTALS, make_example
from tasks.records.marks import MARK_FILE
from tasks.releases.digests import file_digest


def as_text(folder: Path) -> Path:
    """Rewrite the table as text, a row group at a time, under a mark of its own."""
    text = folder / "table.csv"
    source = pq.ParquetFile(folder / TABLE)
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    with text.open("wb") as file:
        file.write((",".join(source.schema_arrow.names) + "\n").encode())
        for number in range(source.num_row_groups):
            group = source.read_row_group(number)
            columns = [column.cast("string") for column in group.columns]
            pyarrow.csv.write_csv(pyarrow.table(columns, names=group.column_names), file, options)
    mark = json.loads((folder / MARK_FILE).read_text())
    (folder / MARK_FILE).write_text(json.dumps(mark | {"digests": {text.name: file_digest(text)}}))
    return text


def main() -> None:
    """Make the table, run, print seconds and the most memory of all processes together."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--text", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        make_example(folder, chosen.rows)
        table = as_text(folder) if chosen.text else folder / TABLE
        inputs = table, folder / DECLARATION, folder / "out", "--calibrate", folder / TOTALS
        options = "--epsilon", "1/2", "--workers", chosen.workers, "--runs-folder", folder / "state"
        measured, said = measure_das("bottom-up", "run", *inputs, *options)
        print(
            f"{chosen.rows:,} rows ({table.stat().st_size / 2**20:.0f} MiB), {said['cells']:,} cells, "
            f"{describe(measured)}, {chosen.workers} workers"
        )


if __name__ == "__main__":
    main()
