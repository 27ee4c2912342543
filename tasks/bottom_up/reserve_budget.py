"""The claim of a bottom-up run, and its check before the table is read."""

from __future__ import annotations

from tasks.bottom_up.measure import CHOICES, BottomUpPlan
from tasks.bottom_up.tabulate import open_source
from tasks.lifecycle.files import load_object
from tasks.lifecycle.reservation import Charging, Claim, Input, precheck
from tasks.lifecycle.run_directory import VALIDATED, RunDirectory
from tasks.records.marks import mark_folder, read_mark


def precheck_budget(run: RunDirectory, design: BottomUpPlan, table: str, charging: Charging) -> None:
    """Refuse a table without the declared columns, and an account that cannot be charged, before the table is read.

    Nothing is charged, and marked data needs no account. A run that has tabulated is not checked again.

    Raises Refused as `tabulate` does, and Refused, Failed as `authorize` does.
    """
    if (run / VALIDATED).exists():
        return
    open_source(table, design.declared)
    if read_mark(mark_folder(table)) is None:
        precheck(charging, Claim(run, design.declared.charged, design.mechanism.spend))


def claim(run: RunDirectory) -> Claim:
    """Return the claim of a run that has tabulated."""
    design = load_object(run / CHOICES, BottomUpPlan)
    tabulated = load_object(run / VALIDATED, Input)
    return Claim(run, design.declared.charged, design.mechanism.spend, design.digest(), tabulated)
