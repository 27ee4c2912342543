"""The reservation of a run's whole spend in the ledger, and with it the run's secret, in one act.

A run with a row continues only with that row's secret, inputs, configuration and noise scheme. Anything else is a new
run and a new spend. Marked data is charged nothing; `register_if_marked` alone decides whether a mark holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

from privacy.accounting.composition import Spend
from privacy.accounting.journal import LOST, MarkName
from privacy.accounting.ledger import Ledger, LedgerError, LedgerUnusable, Request, Row
from privacy.accounting.states import EVERYWHERE
from privacy.noise.randomness import NOISE_SCHEME_VERSION
from tasks.errors import PUT_BACK, Failed, Refused
from tasks.lifecycle.authorization import (
    AUTHORIZATION,
    Authorization,
    is_repetition,
    make_secret,
    may_draw,
    read_authorization,
    read_secret_digest,
    save_authorization,
)
from tasks.lifecycle.process import code_names
from tasks.lifecycle.run_directory import RunDirectory
from tasks.releases.signature import signer


@dataclass(frozen=True)
class Charging:
    """The account to which a run's spend is charged. Public: a name and paths; no account for marked data.

    `second_account`: charge persons even if another account was charged for them. `sign`: the publisher's private key,
    which signs the run's acts and its release.
    """

    account: str | None
    ledger: Path
    second_account: bool = False
    sign: Path | None = None

    @property
    def book(self) -> Ledger:
        """The ledger, with this code and signature for its journal. Raises Refused if the key cannot be used."""
        return Ledger(self.ledger, code_names(), signer(self.sign) if self.sign else None)


@contextmanager
def ledger_errors(stage: str) -> Iterator[None]:
    """Turn refusals by the ledger into Refused, and a ledger that cannot be read or written now into Failed."""
    try:
        yield
    except LedgerUnusable as error:
        raise Failed(f"{stage}: {error}") from None
    except LedgerError as error:
        raise Refused(str(error)) from None


@dataclass(frozen=True)
class Input:
    """The facts that every system's validation returns about the input of a run; a system may add to them.

    `input_digest` (of everything read) and `records_digests` (of each file of records and of each state's records) are
    confidential: they go to the ledger, the first also into key derivation, and are never shown or stored outside the
    confidential directory. mark: the mark that covers the files, or None.
    """

    input_digest: str
    records_digests: tuple[str, ...]
    mark: MarkName | None


@dataclass(frozen=True)
class Claim:
    """The charge that a run asks for.

    states: FIPS codes, each of which is charged. configuration_digest: that of all that shapes the release besides the
    data.
    given: what validation returned; None before the data is read. entered_as: the run that the ledger knows, where this
    is one of its repetitions on marked data.
    """

    run: RunDirectory
    states: tuple[str, ...]
    spend: Spend
    configuration_digest: str = ""
    given: Input | None = None
    entered_as: str | None = None

    @property
    def mark(self) -> MarkName | None:
        """The mark of its data."""
        return self.given.mark if self.given else None

    def request(self, charging: Charging) -> Request:
        """Return it as a request to the ledger; before the data is read, without digests."""
        return Request(
            run=self.entered_as or self.run.id,
            account=charging.account or "",
            states=self.states,
            spend=self.spend,
            input_digest=self.given.input_digest if self.given else "",
            configuration_digest=self.configuration_digest,
            noise_scheme=NOISE_SCHEME_VERSION,
            records_digests=self.given.records_digests if self.given else (),
            second_account=charging.second_account,
        )


def precheck(charging: Charging, claim: Claim) -> Fraction:
    """Refuse what `authorize` would refuse a run that has no row yet, as far as it is known. Charges nothing.

    Returns what is, or would be, charged to each state, in the account's currency. Raises Refused, Failed as
    `authorize` does.
    """
    request, ledger = claim.request(charging), charging.book
    with ledger_errors("reserve budget"):
        if claim.mark:
            if ledger.exists():
                ledger.check_marked(request.digests)
            return Fraction(0)
        check_named(request)
        row = ledger.row(request.run)
        return row.amount if row else ledger.precheck(request)[0]


def check_account(run: RunDirectory, charging: Charging, spends: Iterable[Spend], states: tuple[str, ...] = ()) -> None:
    """Refuse a run that its account cannot pay, before its data is read. Charges nothing.

    spends: the possible spends, between which the data decides. states: those that are charged; empty if the data
    decides.

    Raises Refused, Failed as `authorize` does.
    """
    if not charging.account:
        raise Refused(_no_account(min(spends, key=lambda spend: spend.charged)))
    with ledger_errors("reserve budget"):
        spent = charging.book.books().spent(charging.account)
    somewhere = min(EVERYWHERE, key=lambda state: spent.get(state, 0))  # what no state can pay, the run's cannot
    precheck(charging, Claim(run, states or (somewhere,), min(spends, key=lambda spend: spend.charged)))


def authorize(charging: Charging, *claims: Claim) -> None:
    """Charge the whole spend of all these runs or nothing, and make their secrets; marked data is charged nothing.

    The input of each was validated. Called again for runs that have both, it changes nothing and checks everything.

    Raises Refused if the account is missing or has too little budget remaining; if a run's row has other inputs,
    another configuration or noise scheme, or was abandoned, or its secret is gone; if the ledger contradicts the mark.
    Failed if the ledger cannot be read or written now.
    """
    if any(claim.given is None for claim in claims):
        raise ValueError("a claim without validated input is never charged")
    requests = {claim.run: claim.request(charging) for claim in claims}
    secrets: dict[RunDirectory, tuple[str, str | None]]
    try:
        marked = [claim.run for claim in claims if _is_marked(claim, requests[claim.run], charging.ledger)]
        secrets = {run: (_marked_secret(run, requests[run]), None) for run in marked}
        rows = _reserve(charging, {run: request for run, request in requests.items() if run not in secrets})
        secrets |= {run: (row.secret_digest, row.journal) for run, row in rows.items()}
    except Refused:
        for run in requests:  # else, with its own input and configuration put back, it would go on from these stages
            if may_draw(run):
                run.drop_stages()
        raise
    for run, request in requests.items():
        save_authorization(run, Authorization(request.input_digest, request.configuration_digest, *secrets[run]))


def _is_marked(claim: Claim, request: Request, ledger: Path) -> bool:
    return register_if_marked(request.run, ledger, request.digests, claim.mark)


def register_if_marked(run_id: str, ledger: Path, digests: Set[str], mark: MarkName | None) -> bool:
    """Enter a run whose data is marked in the ledger, if there is a mark; return whether there is one.

    Marked data is neither charged nor secret. A mark is a claim of whoever wrote it. It holds unless the ledger
    contradicts it: data that was charged for is never synthetic or public, and data that was treated as either, so that
    noise was drawn or exact counts were shown without a charge, is never confidential again.

    `mark` is from a file next to the data that covers exactly these files (tasks/records/marks.py). `digests` are those
    of everything read, of each file of records and of each state's records. If marked data finds no ledger, one is
    made.

    Raises Refused if the ledger contradicts the mark, or its absence. Failed if the ledger cannot be read or written
    now.
    """
    book = Ledger(ledger, code_names())
    with ledger_errors("reserve budget"):
        if mark:
            book.enter_marked(run_id, digests, mark)
        elif book.exists():
            book.check_confidential(digests)
    return mark is not None


def check_named(request: Request) -> None:
    """Refuse a request that names no account."""
    if not request.account:
        raise Refused(_no_account(request.spend))


def _no_account(spend: Spend) -> str:
    unit = f" --unit {spend.unit}" if spend.unit != "person" else ""
    opens = f"das ledger open NAME{unit} --definition {spend.definition} --total TOTAL"
    return f"this data needs an account: give --account NAME ({opens} opens one; its total stays, so all runs share it)"


def _reserve(charging: Charging, requests: Mapping[RunDirectory, Request]) -> dict[RunDirectory, Row]:
    """Return the rows of runs; those without a row are charged together."""
    for run, request in requests.items():
        check_named(request)
        if is_repetition(run):
            raise Refused(
                f"{run.id} is the directory of a measurement of errors and is never charged: give another run id"
            )
    if not requests:
        return {}
    ledger = charging.book
    with ledger_errors("reserve budget"):
        rows = {run: row for run, request in requests.items() if (row := ledger.row(request.run))}
        new = [run for run in requests if run not in rows]
        for run in new:
            if (run / AUTHORIZATION).exists():
                raise Refused(
                    f"run {run.id} was authorized, but the ledger {ledger.path} has no row of it. Its noise may have "
                    "been drawn: put back the ledger that has the row, or start a new run, which spends budget again"
                )
        reserved = ledger.reserve_together(*((requests[run], partial(make_secret, run)) for run in new)) if new else ()
        rows |= dict(zip(new, reserved, strict=True))
    for run, request in requests.items():
        check_row(run, rows[run], request)
    return rows


def check_row(run: RunDirectory, row: Row, request: Request) -> None:
    """Refuse a run that differs from the one that its row was reserved for."""
    if row.status == "abandoned":
        raise Refused(f"run {run.id} was abandoned; a new run spends budget again")
    if row.secret_digest == LOST:
        raise Refused(
            f"run {run.id} was entered in the ledger from its journal, which has no digests, so it cannot be continued "
            "and stays charged: put back the ledger that it was reserved in; a new run spends budget again"
        )
    differs = [
        name
        for name in ("account", "input_digest", "configuration_digest", "noise_scheme")
        if getattr(row, name) != getattr(request, name)
    ]
    if differs:
        changed = ", ".join(name.replace("_digest", "").replace("_", " ") for name in differs)
        raise Refused(f"run {run.id} was reserved with another {changed}; {PUT_BACK}")
    if read_secret_digest(run) != row.secret_digest:
        raise Refused(
            f"the secret of run {run.id} is gone, so its noise cannot be drawn again, unless another --runs-folder has "
            "it; a new run spends budget again"
        )


def _marked_secret(run: RunDirectory, request: Request) -> str:
    """Return the secret of a run on marked data: that of a prepared directory, or a new one.

    It protects no data, but binds a run id to its inputs as everywhere.
    """
    earlier = read_authorization(run)
    if earlier is not None:
        bound = (earlier.input_digest, earlier.configuration_digest)
        if bound != (request.input_digest, request.configuration_digest):
            raise Refused(f"run {run.id} began with other inputs or another configuration; {PUT_BACK}")
        if read_secret_digest(run) != earlier.secret_digest:
            raise Refused(f"the secret of run {run.id} is gone; start a new run")
    return read_secret_digest(run) or make_secret(run)
