"""`das tabulate`: a release of the Detailed DHC-A as a tabulation system would publish it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.reports.terminal import Format, FormatOption, report
from tasks.lifecycle.process import use_kernels
from tasks.lifecycle.run_directory import state_home
from tasks.releases.pages.text_table import TextTable


def tabulate(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release of the Detailed DHC-A.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Where the tables go; a new or empty folder.")],
    form: FormatOption = Format.table,
) -> None:
    """Write a release's tables as a tabulation system would publish them: post-processing, no budget is spent.

    Negative counts become 0. A group is suppressed whose total alone is greater than its total alone or in any
    combination (SafeTab-P, 5.3.4). Each change is counted, here and in changes.csv;
    changed-groups.csv has the groups. das show, das check and read_release take the folder as they take a release.

    **Example:** `das tabulate release/us tables/`
    """
    from tasks.safetab.persons.tabulate import GROUPS_FILE, WORDS
    from tasks.safetab.persons.tabulate import tabulate as write_tables

    use_kernels(state_home())
    changes = write_tables(release, out)
    columns = {name: name.replace("_", " ") for name in WORDS}
    rows = [[row["level"], *(f"{row[name]:,}" for name in columns)] for row in changes]
    notes = [f"{columns[name]}: {words}." for name, words in WORDS.items()]
    notes.append(f"Which groups, and why: {out / GROUPS_FILE}")
    title = f"What was changed on the way to {out}"
    report(changes, [TextTable(title, ["level", *columns.values()], rows, notes)], form)
