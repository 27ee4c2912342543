"""What the tables of a Detailed DHC-B release are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.releases.description import Description
from tasks.releases.published import row_column
from tasks.safetab.description import count_table, describe
from tasks.safetab.households.tables import TABLES


def description(manifest: Mapping[str, Any]) -> Description:
    """Return the description of a release: what its tables are, and the laws of their noise."""
    tables = [
        (
            count_table(f"{each.title}: {{level}}", each.unit, each.measured, [row_column(each)]),
            [(table.name, cells) for cells in each.draws.tolist()],
        )
        for table in TABLES.values()
        for each in table.published
    ]
    return describe(manifest, tables, "householders")
