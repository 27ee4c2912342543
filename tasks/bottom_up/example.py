"""A synthetic table for the bottom-up mechanism: counties x sex x group quarters x age, after the slides' tabulation.

SYNTHETIC.json marks it. With it come its declaration, the counties, and published state totals: in every ten states,
one total is unpublished and one disagrees with the table.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privacy.accounting.states import STATES_US
from spine.declaration.form import LITERAL
from tasks.records.marks import Mark, save_mark
from tasks.releases.digests import file_digest

ROW_GROUP = 1 << 20
OFF = 10_000  # error of a total that disagrees: more than the noise at epsilon 1/2 hides
TABLE, DECLARATION, COUNTIES, TOTALS = "table.parquet", "declaration.toml", "counties.csv", "totals.csv"
SEXES = ("1", "2")
QUARTERS = ("000", "101", "103", "201", "301", "401", "501", "601", "701", "801")  # 000: a household
AGES = ("00-04", "05-09", "10-14", "15-19", "20-24", "25-34", "35-44", "45-54", "55-64", "65+")
DECLARED = """states = {states}
leaves = {{ file = "{counties}", key = "COUNTY" }}
levels = [{{ name = "state", columns = ["STATE"] }}, {{ name = "county", columns = ["COUNTY"] }}]
"""
AXIS = """
[axes.{name}]
column = "{name}"
values = {values}
"""


@dataclass(frozen=True)
class Example:
    """The paths of the files."""

    table: Path
    declaration: Path
    totals: Path


def make_example(folder: Path, rows: int, *, states: int = 51, counties: int = 60, seed: int = 1960) -> Example:
    """Write the table, its declaration, totals and the mark into FOLDER; equal arguments give equal files.

    Counties' sizes follow a power law, so many cells are empty or small. Written a row group at a time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made = Example(folder / TABLE, folder / DECLARATION, folder / TOTALS)
    names = STATES_US[:states]
    codes = [f"{state}{2 * county + 1:03d}" for state in names for county in range(counties)]
    values = {"COUNTY": codes, "SEX": SEXES, "GQ": QUARTERS, "AGE": AGES}
    axes = {"SEX": SEXES, "GQ": QUARTERS, "AGE": [f"{LITERAL}{age}" for age in AGES]}  # ages look like ranges
    texts = [AXIS.format(name=name, values=json.dumps(each)) for name, each in axes.items()]
    declared = DECLARED.format(states=json.dumps(names), counties=COUNTIES)
    made.declaration.write_text("".join([declared, *texts]), "utf-8")
    (folder / COUNTIES).write_text("\n".join(["STATE,COUNTY", *(f"{code[:2]},{code}" for code in codes), ""]), "utf-8")

    generator = np.random.default_rng(seed)
    sizes = generator.permutation(1 / np.arange(1, len(codes) + 1))
    shares = [sizes / sizes.sum(), [0.49, 0.51], [0.97, *[0.03 / 9] * 9], [0.1] * 10]
    of_state = np.zeros(states, np.int64)
    schema = pa.schema([(name, pa.dictionary(pa.int16(), pa.string())) for name in values])
    with pq.ParquetWriter(made.table, schema, compression="zstd") as writer:
        for start in range(0, rows, ROW_GROUP):
            length = min(ROW_GROUP, rows - start)
            drawn = [generator.choice(len(share), length, p=share).astype(np.int16) for share in shares]
            columns = [
                pa.DictionaryArray.from_arrays(pa.array(numbers), pa.array(levels))
                for numbers, levels in zip(drawn, values.values(), strict=True)
            ]
            writer.write_table(pa.table(columns, schema=schema))
            of_state += np.bincount(drawn[0] // counties, minlength=states)
    lines = [f"{name},{_published(at, int(of_state[at]))}" for at, name in enumerate(names)]
    made.totals.write_text("\n".join(["STATE,TOTAL", *lines]) + "\n", "utf-8")
    mark = Mark("das bottom-up example", version("das-flows"), seed, {TABLE: file_digest(made.table)})
    save_mark(folder, mark)
    return made


def _published(state: int, total: int) -> str:
    return {3: "", 6: str(total + OFF)}.get(state % 10, str(total))
