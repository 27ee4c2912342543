"""Artifacts of a run on the Prefect server: what is reserved, how many pieces are done, and what was released.

An artifact holds public things only: the manifest's content, pieces of work that are done, and what is left of
the account. Artifacts are best effort: a run neither waits for them nor fails because of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import UUID

from prefect import runtime
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.client.schemas.objects import FlowRun
from prefect.utilities.urls import url_for

from flows.execution.last_word import is_reserved, mark_entered
from flows.execution.prefect_server import is_temporary
from flows.execution.progress import Tally, watched
from flows.execution.settings import RunSettings
from flows.execution.states import add_tags, best_effort, missing_tags
from privacy.accounting.composition import DELTA, read_spend
from privacy.accounting.ledger import Ledger, LedgerError, format_amount
from privacy.accounting.states import listed
from privacy.noise.laws import UNITS
from tasks.lifecycle.manifest import read_manifest, release_digest, shown_marks

POLL_SECONDS = 5.0
CHARGES = ("charged", "synthetic", "public")  # tags of a run


@best_effort
def publish_reserved(settings: RunSettings) -> None:
    """Publish what was reserved and what is left of the account, then tag the run as charged, synthetic or public."""
    rows = _account_lines(settings)
    mark = "charged" if rows else mark_entered(settings)
    once, nothing = "once, however it ends and however often it is resumed", f"nothing: its data is {mark}"
    data = json.dumps(rows or [{"charged": "nothing"}])
    _create(settings, "budget", "table", data, f"Run {settings.run_id} is charged {once if rows else nothing}")
    add_tags(mark)


@best_effort
def publish_missed(settings: RunSettings) -> None:
    """Publish what the server missed while it or its database was away: the run's tag, and what was reserved."""
    missing = missing_tags(f"run:{settings.run_id}", *CHARGES)
    if f"run:{settings.run_id}" in missing:
        add_tags(f"run:{settings.run_id}")
    if missing.issuperset(CHARGES) and is_reserved(settings):
        publish_reserved(settings)


@best_effort
def publish_earlier(settings: RunSettings, earlier: list[FlowRun]) -> None:
    """Link the flow runs that a resumed run continues."""
    if earlier:
        runs = [f"* [{run.name}]({url_for('flow-run', run.id)}): {run.state_name}" for run in earlier]
        _create(settings, "goes-on-from", "markdown", "\n".join(runs), f"Continues run {settings.run_id}")


@best_effort
def publish_released(settings: RunSettings, place: Path) -> None:
    """Publish a page of what was released and spent."""
    text = page(read_manifest(place), place, release_digest(place), _account_lines(settings))
    _create(settings, "release", "markdown", text, f"Released by run {settings.run_id}")


def page(manifest: Mapping[str, Any], place: Path, digest: str, account: list[dict[str, str]]) -> str:
    """Return the page of a release, in Markdown; all but the account is in the manifest."""
    lines = [f"# {manifest['release']}", "", *(f"**{mark}**" for mark in shown_marks(manifest)), ""]
    lines += [f"| neighbouring data | spent | epsilon at delta {DELTA:g} |", "|---|---:|---:|"]
    lines += [f"| {' | '.join((row.sentence, *row.cells))} |" for row in read_spend(manifest["spent"]).rows()]
    for row in account:
        lines += ["", *(f"* {name}: {value}" for name, value in row.items())]
    if "levels" in manifest and all("groups_published" in level for level in manifest["levels"].values()):
        lines += ["", "| population group level | groups published | of |", "|---|---:|---:|"]
        for name, level in manifest["levels"].items():
            lines.append(f"| {name} | {sum(level['groups_published'].values()):,} | {level['groups']:,} |")
    report = [f"* report: `{place / 'report.html'}`"] if (place / "report.html").exists() else []
    return "\n".join([*lines, "", f"* release: `{place}`", *report, f"* digest of manifest.json: `{digest}`"])


@contextmanager
def progress(settings: RunSettings) -> Iterator[None]:
    """Record which share of each stage's pieces is done, every POLL_SECONDS, from a thread of its own."""
    if is_temporary():
        yield
        return
    sender = _Progress(settings)
    thread = Thread(target=sender.send_changes, name="progress", daemon=True)
    with watched(sender.tally):
        thread.start()
        try:
            yield
        finally:
            sender.over.set()
            thread.join(POLL_SECONDS)


class _Progress:
    """The progress artifacts of one flow run."""

    def __init__(self, settings: RunSettings) -> None:
        self.tally = Tally()
        self.over = Event()
        self._settings = settings
        self._flow_run = UUID(str(runtime.flow_run.id))  # unknown in another thread
        self._artifacts: dict[str, tuple[UUID, float]] = {}

    @best_effort
    def send_changes(self) -> None:
        """Send the server what has changed, until the run is over, and then once more."""
        with get_client(sync_client=True) as client:
            last = False
            while not last:
                last = self.over.wait(POLL_SECONDS)
                for name, percent in self._percents().items():
                    self._send(client, name, percent)

    def _percents(self) -> dict[str, float]:
        return {name: 100.0 * done / total for name, (done, total) in list(self.tally.pieces.items()) if total}

    def _send(self, client: SyncPrefectClient, name: str, percent: float) -> None:
        percent = float(int(percent))
        if name not in self._artifacts:
            if percent == 100.0:
                return  # done between two polls
            created = _artifact(self._settings, f"progress {name}", "progress", percent, name, self._flow_run)
            self._artifacts[name] = client.create_artifact(created).id, percent
        elif self._artifacts[name][1] != percent:
            artifact = self._artifacts[name][0]
            client.update_artifact(artifact, ArtifactUpdate(data=percent))
            self._artifacts[name] = artifact, percent


def _account_lines(settings: RunSettings) -> list[dict[str, str]]:
    """Return one row of what the run was charged and its account has left; none for a run that was charged nothing."""
    ledger = Ledger(Path(settings.ledger))
    try:
        row = ledger.row(str(settings.run_id))
        if row is None:
            return []
        account = next(account for account in ledger.accounts() if account.name == row.account)
        spent = ledger.spent(account.name)
    except LedgerError:
        return []
    unit = UNITS[account.definition]
    most = max(spent[state] for state in row.states)
    return [
        {
            "account": account.name,
            "charged to each state": f"{unit} {format_amount(row.amount)}",
            "least left in a state": f"{unit} {format_amount(account.total - most)} of {format_amount(account.total)}",
            "states": listed(row.states),
        }
    ]


def _create(settings: RunSettings, what: str, kind: str, data: Any, description: str) -> None:
    with get_client(sync_client=True) as client:
        flow_run = UUID(str(runtime.flow_run.id))
        client.create_artifact(_artifact(settings, what, kind, data, description, flow_run))


def _artifact(
    settings: RunSettings, what: str, kind: str, data: Any, description: str, flow_run: UUID
) -> ArtifactCreate:
    key = re.sub("[^a-z0-9]+", "-", f"{settings.SYSTEM}-{settings.folder}-{what}".lower())
    return ArtifactCreate(key=key, type=kind, data=data, description=description, flow_run_id=flow_run)
