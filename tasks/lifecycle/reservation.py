"""The reservation of a run's whole spend in the ledger, and with it the run's secret, in one act.

A run with a row continues only with that row's secret, inputs, configuration and noise scheme. Anything else is a new
run and a new spend. Marked data is charged nothing; `register_if_marked` alone decides whether a mark holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

from privacy.accounting.composition import Spend
from privacy.accounting.journal import MarkName
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

NO_ACCOUNT = "this data needs an account: give --account NAME (das ledger open NAME opens one)"


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


@dataclass(frozen=True)
class Claim:
    """A run's request to the ledger, and the mark of its data."""

    run: RunDirectory
    request: Request
    mark: MarkName | None


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


def precheck(
    run: RunDirectory,
    charging: Charging,
    states: tuple[str, ...],
    spend: Spend,
    given: Input | None = None,
) -> Fraction:
    """Refuse what `authorize` would refuse a run without a row, as far as it is known. Charges nothing.

    given: the result of validation; None before the data is read. Returns what is, or would be, charged to each state,
    in the account's currency.

    Raises Refused, Failed as `authorize` does.
    """
    request = _request(run.id, charging, states, spend, given=given)
    ledger = charging.book
    with ledger_errors("reserve budget"):
        if given is not None and given.mark:
            if ledger.exists():
                ledger.check_marked(request.digests)
            return Fraction(0)
        check_named(request)
        row = ledger.row(run.id)
        return row.amount if row else ledger.precheck(request)


def check_account(run: RunDirectory, charging: Charging, spends: Iterable[Spend], states: tuple[str, ...] = ()) -> None:
    """Refuse a run that its account cannot pay, before its data is read. Charges nothing.

    spends: the possible spends, between which the data decides. states: those that are charged; empty if the data
    decides.

    Raises Refused, Failed as `authorize` does.
    """
    if not charging.account:
        raise Refused(NO_ACCOUNT)
    with ledger_errors("reserve budget"):
        spent = charging.book.books().spent(charging.account)
    somewhere = min(EVERYWHERE, key=lambda state: spent.get(state, 0))  # the least charged state can pay the most
    precheck(run, charging, states or (somewhere,), min(spends, key=lambda spend: spend.charged))


def authorize(
    run: RunDirectory,
    charging: Charging,
    states: tuple[str, ...],
    spend: Spend,
    configuration_digest: str,
    given: Input,
    *,
    entered_as: str | None = None,
) -> None:
    """Charge the run's whole spend and make its secret, as `authorize_together` does.

    The arguments are those of `claim`.
    """
    authorize_together(
        charging, [claim(run, charging, states, spend, configuration_digest, given, entered_as=entered_as)]
    )


def claim(
    run: RunDirectory,
    charging: Charging,
    states: tuple[str, ...],
    spend: Spend,
    configuration_digest: str,
    given: Input,
    *,
    entered_as: str | None = None,
) -> Claim:
    """Return a run's request to the ledger.

    states: FIPS codes, each of which is charged. configuration_digest: of everything that shapes the release besides
    the data. entered_as: the run that the ledger knows, if this one repeats it on marked data.
    """
    request = _request(entered_as or run.id, charging, states, spend, configuration_digest, given)
    return Claim(run, request, given.mark)


def authorize_together(charging: Charging, claims: Sequence[Claim]) -> None:
    """Charge the whole spend of all these runs or of none, and make their secrets; marked data is charged nothing.

    Called again for runs with a row and a secret, it changes nothing and checks everything.

    Raises Refused if the account is missing or has too little budget remaining; if a run's row has other inputs,
    another configuration or noise scheme, or was abandoned, or its secret is gone; if the ledger contradicts the mark.
    Failed if the ledger cannot be read or written now.
    """
    try:
        marked = [each for each in claims if _is_marked(each, charging.ledger)]
        secrets: dict[RunDirectory, tuple[str, str | None]]
        secrets = {each.run: (_marked_secret(each.run, each.request), None) for each in marked}
        rows = _reserve(charging, [each for each in claims if each not in marked])
        secrets |= {run: (row.secret_digest, row.journal) for run, row in rows.items()}
    except Refused:
        for (
            each
        ) in claims:  # otherwise, with its own input and configuration restored, it would resume from these stages
            if may_draw(each.run):
                each.run.drop_stages()
        raise
    for each in claims:
        request, (secret_digest, journal) = each.request, secrets[each.run]
        save_authorization(
            each.run, Authorization(request.input_digest, request.configuration_digest, secret_digest, journal)
        )


def _is_marked(claim: Claim, ledger: Path) -> bool:
    return register_if_marked(claim.request.run, ledger, claim.request.digests, claim.mark)


def _request(
    run_id: str,
    charging: Charging,
    states: tuple[str, ...],
    spend: Spend,
    configuration_digest: str = "",
    given: Input | None = None,
) -> Request:
    """Return a run's request to the ledger; it has no digests before its data is read."""
    return Request(
        run=run_id,
        account=charging.account or "",
        states=states,
        spend=spend,
        input_digest=given.input_digest if given else "",
        configuration_digest=configuration_digest,
        noise_scheme=NOISE_SCHEME_VERSION,
        records_digests=given.records_digests if given else (),
        second_account=charging.second_account,
    )


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
        raise Refused(NO_ACCOUNT)


def _reserve(charging: Charging, claims: Sequence[Claim]) -> dict[RunDirectory, Row]:
    """Return the rows of runs; runs without a row are charged together."""
    if not claims:
        return {}
    ledger, rows = charging.book, dict[RunDirectory, Row]()
    for each in claims:
        check_named(each.request)
        if is_repetition(each.run):
            raise Refused(
                f"{each.run.id} is the directory of a measurement of errors and is never charged: give another run id"
            )
    with ledger_errors("reserve budget"):
        for each in claims:
            if row := ledger.row(each.request.run):
                rows[each.run] = row
            elif (each.run / AUTHORIZATION).exists():
                raise Refused(
                    f"run {each.run.id} was authorized, but the ledger {ledger.path} has no row of it. Its noise may "
                    "have been drawn: put back the ledger that has the row, or start a new run, which spends budget "
                    "again"
                )
        new = [each for each in claims if each.run not in rows]
        if new:
            reserved = ledger.reserve_together(*((each.request, partial(make_secret, each.run)) for each in new))
            rows |= {each.run: row for each, row in zip(new, reserved, strict=True)}
    for each in claims:
        check_row(each.run, rows[each.run], each.request)
    return rows


def check_row(run: RunDirectory, row: Row, request: Request) -> None:
    """Refuse a run that differs from the one that its row was reserved for."""
    if row.status == "abandoned":
        raise Refused(f"run {run.id} was abandoned; a new run spends budget again")
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
            f"the secret of run {run.id} is gone, so its noise cannot be drawn again; a new run spends budget again"
        )


def _marked_secret(run: RunDirectory, request: Request) -> str:
    """Return the secret of a run on marked data: that of a prepared directory, or a new one.

    It protects nobody, but a run id is bound to its inputs as everywhere.
    """
    earlier = read_authorization(run)
    if earlier is not None:
        bound = (earlier.input_digest, earlier.configuration_digest)
        if bound != (request.input_digest, request.configuration_digest):
            raise Refused(f"run {run.id} began with other inputs or another configuration; {PUT_BACK}")
        if read_secret_digest(run) != earlier.secret_digest:
            raise Refused(f"the secret of run {run.id} is gone; start a new run")
    return read_secret_digest(run) or make_secret(run)
