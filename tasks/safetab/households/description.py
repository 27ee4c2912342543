"""What the tables of a Detailed DHC-B release are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.releases.description import Column, Description, Table
from tasks.safetab.description import Sums, count_table, describe
from tasks.safetab.households.tables import TABLES, CountTable


def _table(table: CountTable, detail: int) -> tuple[Table, Sums]:
    name, rows = table.details[detail], table.rows(detail)
    cells = Column(
        table.column,
        "code",
        f"the cell of {table.words}",
        {str(cell): table.cells[cell][0] for cell in rows},
        title=table.words.capitalize(),
        frame=table.words.replace(" ", "_"),
        labels=True,
        overlap=len(rows) > 1,
    )
    title = f"Households by {table.words} ({name}): {{level}}"
    sums = dict.fromkeys((table.name, len(places)) for places in rows.values())
    return count_table(title, "households", f"{table.name}/{name}", [cells]), list(sums)


def description(manifest: Mapping[str, Any]) -> Description:
    """Return the description of a release: what its tables are, and the laws of their noise."""
    tables = [_table(table, detail) for table in TABLES.values() for detail in range(len(table.details))]
    return describe(manifest, tables, "householders")
