"""Artifacts of a run on the Prefect server: its reservation, and its release.

An artifact holds only public facts: the manifest's content, and the account's remaining budget. Artifacts are best
effort: a run neither waits for them nor fails because of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from prefect.artifacts import create_markdown_artifact, create_table_artifact

from flows.execution.settings import RunSettings
from flows.execution.states import add_tags, best_effort
from flows.execution.systems import kind_of_release
from privacy.accounting.composition import DELTA, read_spend, rounded_down, rounded_up
from privacy.accounting.ledger import Ledger, LedgerError
from privacy.accounting.states import listed
from privacy.noise.laws import UNITS
from tasks.releases.manifest import read_manifest, release_digest, shown_marks


@best_effort
def publish_reserved(settings: RunSettings) -> None:
    """Publish the charge and the account's remaining budget; tag the run as charged, or by the mark of its data."""
    rows, run = _account_lines(settings), str(settings.run_id)
    tag, charged = "charged", "once, however it ends and however often it is resumed"
    if not rows:
        tag = Ledger(Path(settings.ledger)).books().marked[run][1].lower()
        charged = f"nothing: its data is {tag}"
    create_table_artifact(
        rows or [{"charged": "nothing"}], key=_key(settings, "budget"), description=f"Run {run} is charged {charged}"
    )
    add_tags(tag)


@best_effort
def publish_released(settings: RunSettings, place: Path) -> None:
    """Publish a page about the release and its spend."""
    text = page(read_manifest(place), place, release_digest(place), _account_lines(settings))
    key, description = _key(settings, "release"), f"Released by run {settings.run_id}"
    create_markdown_artifact(text, key=key, description=description)


def page(manifest: Mapping[str, Any], place: Path, digest: str, account: list[dict[str, str]]) -> str:
    """Return the page of a release, in Markdown; everything except the account is in the manifest."""
    lines = [f"# {manifest['release']}", "", *(f"**{mark}**" for mark in shown_marks(manifest)), ""]
    lines += [f"| what changes | spent | epsilon at delta {DELTA:g} |", "|---|---:|---:|"]
    lines += [_row((row.sentence, *row.cells)) for row in read_spend(manifest["spent"]).rows()]
    for row in account:
        lines += ["", *(f"* {name}: {value}" for name, value in row.items())]
    kind = kind_of_release(manifest["release"])
    if kind and kind.published:
        table = kind.part("published")(manifest)
        lines += ["", _row(table.columns), f"|---{'|---:' * (len(table.columns) - 1)}|", *map(_row, table.rows)]
    report_page = place / "report.html"
    report = [f"* report: [`{report_page}`]({report_page.as_uri()})"] if report_page.exists() else []
    return "\n".join([*lines, "", f"* release: `{place}`", *report, f"* digest of manifest.json: `{digest}`"])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _account_lines(settings: RunSettings) -> list[dict[str, str]]:
    """Return one row about the run's charge and its account's remaining budget; none if nothing was charged."""
    try:
        books = Ledger(Path(settings.ledger)).books()
    except LedgerError:  # the page of a release shows the rest
        return []
    row = books.runs.get(str(settings.run_id))
    if row is None:
        return []
    account = books.accounts[row.account]
    unit, (_, remaining) = UNITS[account.definition], books.remaining(account.name, row.states)
    return [
        {
            "account": account.name,
            "charged to each state": account.amount(row.amount),
            "least left in a state": f"{unit} {rounded_down(remaining)} of {rounded_up(account.total)}",
            "states": listed(row.states),
        }
    ]


def _key(settings: RunSettings, what: str) -> str:
    return re.sub("[^a-z0-9]+", "-", f"{settings.SYSTEM}-{settings.folder}-{what}".lower())
