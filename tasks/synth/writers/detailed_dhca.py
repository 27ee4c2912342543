"""person-records of SafeTab-P: block, age, sex, householder, race and ethnicity codes of each person."""

from __future__ import annotations

import numpy as np

from tasks.inputs.block_codes import BLOCK_COLUMNS
from tasks.synth.population.ages import AGES
from tasks.synth.population.model import HOUSEHOLDER
from tasks.synth.writers.records import Columns, Stretch, System, Table, digits, race_columns

COLUMNS = ("QAGE", "QSEX", "HOUSEHOLDER", *BLOCK_COLUMNS, "CENRACE", *(f"QRACE{j}" for j in range(1, 9)), "QSPAN")


def _persons(stretch: Stretch) -> list[Columns]:
    people = stretch.people
    cell = np.arange(4 * AGES)
    words = {
        "QAGE": digits(cell % AGES, 3),
        "QSEX": np.array(["1", "2"], "S")[cell // AGES % 2],
        "HOUSEHOLDER": np.array(["False", "True"], "S")[cell // (2 * AGES)],
    }
    head = people.age.astype(np.int64) + AGES * people.sex + 2 * AGES * (people.role == HOUSEHOLDER)
    block = stretch.units.block[people.unit]
    span = Columns({"QSPAN": stretch.origins.span}, people.span)
    return [Columns(words, head), stretch.at_block(block), race_columns(stretch, cenrace="CENRACE"), span]


SYSTEM = System("detailed-dhca", (Table("person-records", COLUMNS, _persons),), bytes_a_person=79)
