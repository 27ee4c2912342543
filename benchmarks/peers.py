"""One table by several libraries: exact counts of a declared domain plus noise, empty cells included, as Parquet.

    python benchmarks/peers.py FOLDER [--rows 10000000] [--only opendp diffprivlib] [--timeout 900]

The table of `bottom_up.py` with 918,000 cells. Each library is used as its documentation does, in an environment of its
own in FOLDER, at the versions below (pip installs them; Spark needs Java), and at one budget: rho .1, or epsilon .45 by
what has no discrete Gaussian. A library that cannot be installed or started is listed with the last line of its
error. Start and imports are measured too. Margin and exactness are what the documentation promises.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from measure import DAS, arguments, describe, machine, measure

from tasks.bottom_up.example import AGES, DECLARATION, QUARTERS, SEXES, TABLE, make_example

COUNTIES = 90  # of each state
TIMED_OUT = 124  # timeout(1)
READ = """
import json, sys
table, out = sys.argv[1:3]
domain = json.load(open(sys.argv[3]))
names = list(domain)
"""
BUDGET = """
from das_flows import Budget
Budget(zcdp="0.1").measure({records}, "0.1", by=domain, stability=1).reset_index().to_parquet(out)
"""
FRAME = "import pandas as pd\nframe = pd.read_parquet(table)\n"
OPENDP = """
from itertools import product
import opendp.prelude as dp, polars as pl
dp.enable_features("contrib")
keys = pl.DataFrame(list(product(*domain.values())), schema=dict.fromkeys(names, pl.String), orient="row")
keys.write_parquet(out + ".keys")  # in memory they are serialized again at every step of the search for the scale
keys = pl.scan_parquet(out + ".keys")
records = pl.scan_parquet(table).cast(dict.fromkeys(names, pl.String))
context = dp.Context.compositor(
    data=records, privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(rho=0.1), split_evenly_over=1
)
query = context.query().group_by(names).agg(dp.len(signed=True)).with_keys(keys)
query.release().collect().write_parquet(out)
"""
DIFFPRIVLIB = """
import numpy as np, pandas as pd
from diffprivlib.tools import histogramdd
frame = pd.read_parquet(table)
sample = np.column_stack([pd.Categorical(frame[name], domain[name]).codes for name in names])
sizes = [len(values) for values in domain.values()]
counts, _ = histogramdd(sample, epsilon=.45, bins=sizes, range=[(-.5, size - .5) for size in sizes])
index = pd.MultiIndex.from_product(domain.values(), names=names)
pd.DataFrame({"count": counts.ravel()}, index).reset_index().to_parquet(out)
"""
SMARTNOISE = """
import pandas as pd, snsql
frame = pd.read_parquet(table).astype(str)
columns = {name: {"type": "string", "cardinality": len(values)} for name, values in domain.items()}
form = {"": {"t": {"t": {"row_privacy": True, "rows": len(frame), **columns}}}}
reader = snsql.from_df(frame, privacy=snsql.Privacy(epsilon=.45, delta=1e-10), metadata=form)
by = ", ".join(names)
reader.execute_df(f"SELECT {by}, COUNT(*) AS n FROM t.t GROUP BY {by}").to_parquet(out)
"""
TUMULT = """
import os
os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers: of this environment, as where it is activated
from pyspark.sql import SparkSession
from tmlt.analytics import AddOneRow, KeySet, QueryBuilder, RhoZCDPBudget, Session
spark = SparkSession.builder.master("local[2]").config("spark.driver.memory", "8g").getOrCreate()
session = Session.from_dataframe(
    privacy_budget=RhoZCDPBudget(0.1), source_id="t", dataframe=spark.read.parquet(table), protected_change=AddOneRow()
)
query = QueryBuilder("t").groupby(KeySet.from_dict(domain)).count()
session.evaluate(query, privacy_budget=RhoZCDPBudget(0.1)).write.parquet(out)
"""


@dataclass(frozen=True)
class Peer:
    """A library: its packages, the script, and what its documentation promises of margins and of its noise."""

    name: str
    packages: tuple[str, ...]
    script: str
    margin: str
    exact: str


OWN = (
    Peer("das.Budget, Parquet path", (), BUDGET.format(records="table"), "yes", "yes"),
    Peer("das.Budget, frame", (), FRAME + BUDGET.format(records="frame"), "yes", "yes"),
)
PEERS = (
    Peer("opendp", ("opendp[polars]==0.16.0", "pyarrow==21.0.0"), OPENDP, "one figure", "yes"),
    Peer("diffprivlib", ("diffprivlib==0.6.6", "scikit-learn==1.5.2", "pandas==2.3.3", "pyarrow==21.0.0"), DIFFPRIVLIB,
         "no", "no"),
    Peer("smartnoise-sql", ("smartnoise-sql==1.0.10", "pyarrow==21.0.0"), SMARTNOISE, "not asked", "no"),
    Peer("tumult-analytics", ("tmlt.analytics==0.21.0", "setuptools==75.8.0"), TUMULT, "no", "yes"),
)  # fmt: skip


def environment(folder: Path, peer: Peer) -> str:
    """Make the environment of a library; return its Python. Raises CalledProcessError."""
    place = folder / peer.name
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True, capture_output=True)
    python = str(place / "bin/python")
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *peer.packages]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return python


def measured(command: list[str], out: Path, seconds: int, cells: int) -> str:
    """Run a command that writes OUT; return its figures and the number of empty cells, or how it failed."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        found = measure(["timeout", str(seconds), *command], stdout=subprocess.DEVNULL, stderr=errors)
        errors.seek(0)
        said = errors.read()
    if found["returncode"] == TIMED_OUT:
        return f"not ended in {seconds} s"
    if found["returncode"]:
        return f"failed ({found['returncode']}): {last_line(said)}"
    rows = sum(pq.read_metadata(path).num_rows for path in (out.glob("*.parquet") if out.is_dir() else [out]))
    return f"{describe(found)}; {rows:,} of {cells:,} cells"


def last_line(text: str) -> str:
    """Return the last line of an error."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "no message")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument(
        "--only", nargs="*", default=[], choices=[peer.name for peer in (*OWN, *PEERS)], metavar="LIBRARY"
    )
    parser.add_argument("--timeout", type=int, default=900, help="seconds of one library")
    given = parser.parse_args()
    data = given.folder / "data"
    table = make_example(data, given.rows, counties=COUNTIES).table
    counties = [line.partition(",")[2] for line in (data / "counties.csv").read_text("utf-8").splitlines()[1:]]
    domain = {"COUNTY": counties, "SEX": SEXES, "GQ": QUARTERS, "AGE": AGES}
    (data / "domain.json").write_text(json.dumps(domain), "utf-8")
    cells = len(counties) * len(SEXES) * len(QUARTERS) * len(AGES)
    print(f"{given.rows:,} records, {cells:,} cells; {machine()}", flush=True)

    def show(name: str, found: str, promised: str = "") -> None:
        print(f"{name}: {found}{promised}", flush=True)

    with tempfile.TemporaryDirectory(dir=given.folder) as scratch:
        out = Path(scratch) / "das"
        words = "bottom-up", "run", TABLE, DECLARATION, out, "--epsilon", ".45", "--runs-folder", Path(scratch) / "runs"
        paths = [data / word if word in (TABLE, DECLARATION) else word for word in words]
        command, histogram = [DAS, *map(str, paths)], out / "bottom-up/parquet/histogram.parquet"
        show("das bottom-up run", measured(command, histogram, given.timeout, cells), "; margin yes, exact yes")
        for number, peer in enumerate((*OWN, *PEERS)):
            if given.only and peer.name not in given.only:
                continue
            try:
                python = environment(given.folder, peer) if peer.packages else sys.executable
            except subprocess.CalledProcessError as error:
                show(peer.name, f"cannot be installed: {last_line(str(error.stderr))}")
                continue
            out = Path(scratch) / f"{number}.parquet"
            command = [python, "-c", READ + peer.script, str(table), str(out), str(data / "domain.json")]
            promised = f"; margin {peer.margin}, exact {peer.exact}; {' '.join(peer.packages)}"
            show(peer.name, measured(command, out, given.timeout, cells), promised)


if __name__ == "__main__":
    main()
