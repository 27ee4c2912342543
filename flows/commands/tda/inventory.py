"""`das tda inventory`: which noisy measurement files of the Census Bureau are there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flows.commands.tda.options import StateOption
from flows.reports.terminal import Json, show
from tasks.lifecycle.errors import Refused

if TYPE_CHECKING:
    from tasks.inputs.findings import Finding


def inventory(
    files: Annotated[
        Path, typer.Argument(metavar="NMF", help="The Census Bureau's noisy measurement files, as downloaded.")
    ],
    states: StateOption = None,
    as_json: Json = False,
) -> None:
    """Show which noisy measurement files of the Census Bureau are there, and their columns; no data is read.

    **Example:** `das tda inventory nmf/`
    """
    from flows.reports.curator import findings_data
    from tasks.inputs.findings import gather, has_errors
    from tasks.top_down.published.nmf.inventory import described, is_published_files, take_inventory
    from tasks.top_down.published.places import NO_FILES

    if not is_published_files(files):
        raise Refused(f"{files}: {NO_FILES}")
    found, faults = take_inventory(files, tuple(states or ()))
    rows, findings = described(found), gather(faults.findings())
    show({"files": rows, "findings": findings_data(findings)}, lambda: _tables(rows, findings), as_json=as_json)
    if has_errors(findings):
        raise Refused("the published files do not pass")


def _tables(rows: list[dict[str, Any]], findings: list[Finding]) -> RenderableType:
    """Return the inventory as a table, the schemas once each, and the findings."""
    from flows.reports.curator import findings_table
    from tasks.top_down.release.nmf_layout import LEVELS
    from tasks.top_down.run_plan import US

    table = Table("data", "product", "level", title="Published noisy measurements: files and rows")
    for head in ("DPQuery files", "rows", "Constraint files", "rows"):
        table.add_column(head, justify="right")
    table.add_column("State=")
    order, schemas = [US, *LEVELS], dict.fromkeys(schema for row in rows for schema in row["schemas"])
    keys = dict.fromkeys((row["jurisdiction"], row["product"], row["level"]) for row in rows)
    for key in sorted(keys, key=lambda key: (key[0] != "us", key[1], order.index(key[2]))):
        of = {row["rows of"]: row for row in rows if (row["jurisdiction"], row["product"], row["level"]) == key}
        kinds = [of.get(kind, {"files": 0, "rows": 0}) for kind in ("DPQuery", "Constraint")]
        states = sorted({state for row in of.values() for state in row["states"]})
        shown = ", ".join(states[:6]) + (f" ... ({len(states)})" if len(states) > 6 else "")
        table.add_row(*key, *(f"{kind[head]:,}" for kind in kinds for head in ("files", "rows")), shown)
    return Group(table, *(Text(f"columns: {schema}") for schema in schemas), findings_table(findings))
