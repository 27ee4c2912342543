"""Synthetic persons as an Arrow table with the columns of person-records.txt, dictionary-encoded from end to end."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tasks.inputs.block_codes import BLOCK_COLUMNS
from tasks.synth.age import AGES
from tasks.synth.blocks import Blocks
from tasks.synth.origins import Origins
from tasks.synth.people import People
from tasks.synth.races import CENRACE, major_races
from tasks.synth.text import COLUMNS

SCHEMA = pa.schema([(name, pa.dictionary(pa.int16(), pa.string())) for name in COLUMNS])


def person_table(people: People, blocks: Blocks, origins: Origins) -> pa.Table:
    """Return the persons as text columns, the values being those of the text file."""
    codes = [code.decode() for code in origins.race] + ["Null"]
    columns = {
        "QAGE": _column(people.cell % AGES, [f"{age:03d}" for age in range(AGES)]),
        "QSEX": _column(people.cell // AGES, ["1", "2"]),
        "HOUSEHOLDER": _column(people.householder, ["False", "True"]),
    }
    for name in BLOCK_COLUMNS:
        values, number = np.unique(blocks.columns[name], return_inverse=True)
        columns[name] = _column(number[people.block], [value.decode() for value in values])
    majors = np.append(major_races(origins.race), 0)
    races = majors[people.race]
    races[people.several] |= np.bitwise_or.reduce(majors[people.more], axis=1)
    columns["CENRACE"] = _column(races, [code.decode() for code in CENRACE])
    columns["QRACE1"] = _column(people.race, codes)
    for j in range(7):
        race = np.full(len(people.race), len(origins.race), np.int16)
        race[people.several] = people.more[:, j]
        columns[f"QRACE{j + 2}"] = _column(race, codes)
    columns["QSPAN"] = _column(people.span, [code.decode() for code in origins.span])
    return pa.table(columns, schema=SCHEMA)


def _column(indices: np.ndarray, values: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(indices.astype(np.int16)), pa.array(values))
