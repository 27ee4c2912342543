"""household-records of the Detailed DHC-B: block, codes of the householder, household type and tenure."""

from __future__ import annotations

from tasks.inputs.block_codes import BLOCK_COLUMNS
from tasks.synth.writers.records import Columns, Stretch, System, Table, coded, race_columns

COLUMNS = (*BLOCK_COLUMNS, "HHRACE", *(f"QRACE{j}" for j in range(1, 9)), "QSPAN", "HOUSEHOLD_TYPE", "TEN")
# HOUSEHOLD_TYPE by HHT: married couple; other family, male and female householder; nonfamily alone and not alone.
TYPE_OF_HHT = ["0", "1", "2", "3", "4", "5", "4", "5"]


def _households(stretch: Stretch) -> list[Columns]:
    rows, units = stretch.households, stretch.units
    heads = units.head[rows]
    return [
        stretch.at_block(units.block[rows]),
        race_columns(stretch, heads, cenrace="HHRACE"),
        Columns({"QSPAN": stretch.origins.span}, stretch.people.span[heads]),
        coded("HOUSEHOLD_TYPE", TYPE_OF_HHT, stretch.recodes.hht[rows]),
        coded("TEN", list("01234"), units.tenure[rows]),
    ]


SYSTEM = System("ddhcb", (Table("household-records", COLUMNS, _households),), bytes_a_person=28)
