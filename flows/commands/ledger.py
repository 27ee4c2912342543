"""`das ledger`: open budget accounts, show their charges, and maintain the ledger itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import starmap
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flows.commands.options import LedgerOptions
from flows.reports.curator import joint_data, joint_table, spend_table
from flows.reports.terminal import show
from privacy.accounting.composition import read_spend, rounded_down, rounded_up
from privacy.accounting.journal import Books, signed_part
from privacy.accounting.ledger import Account, Examined, Ledger, Row, on_other_data
from privacy.accounting.signatures import is_signed
from privacy.accounting.states import EVERYWHERE, alike, listed
from privacy.accounting.together import HOUSEHOLD_SIZE, charged_together, joint_rows
from privacy.noise.exact import exact_number
from privacy.noise.laws import UNITS, Definition
from tasks.errors import Refused, refusing
from tasks.lifecycle.private_folder import check_private
from tasks.lifecycle.process import code_names
from tasks.releases.check import Check, check_charge
from tasks.releases.received import reason_of
from tasks.releases.signature import read_publisher, signer


def open_account(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The account's name: one confidential dataset.")],
    definition: Annotated[Definition, typer.Option(help="zcdp (rho) or puredp (epsilon).")],
    total: Annotated[
        str, typer.Option(help="The most that the charges of any state may sum to, exact: 4.944 or 618/125.")
    ],
    unit: Annotated[
        Literal["person", "household"], typer.Option(help="The unit of privacy: whose loss the total bounds.")
    ] = "person",
    sign: Annotated[
        Path | None,
        typer.Option(
            metavar="KEY",
            help="Sign with the publisher's private key (Ed25519, PEM), and take no run without it.",
        ),
    ] = None,
    *,
    options: LedgerOptions,
) -> None:
    """Open an account. Neither its total nor its unit of privacy can ever be changed.

    **Example:** `das ledger open census-2020 --definition zcdp --total 4.944`
    """
    if options.ledger is None:
        check_private(options.home, may_be_link=True)  # as runs do
    try:
        amount = exact_number(total)
    except ValueError as error:
        raise Refused(f"--total {total} {error}") from None
    publisher = signer(sign) if sign else None
    with refusing():
        account = Account(name, definition, amount, unit, publisher and publisher.publisher)  # type: ignore[arg-type]
        book = Ledger(options.ledger_file, code_names(), publisher)
        book.open_account(account)
    facts = {name: getattr(account, name) for name in ("definition", "total", "unit", "publisher")}
    demand = ", and takes no run without its publisher's signature" if publisher else ""
    known = f"for {unit}s, with {account.amount(amount)} in {book.path}{demand}"
    show({"account": name, **facts, "ledger": book.path}, lambda: f"account {name} is open {known}")


def show_ledger(
    together: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Show what these accounts lose together, over both units; repeat it."),
    ] = None,
    household_size: Annotated[
        int, typer.Option(min=1, max=99, help="Persons of a household that is added or removed whole.")
    ] = HOUSEHOLD_SIZE,
    *,
    options: LedgerOptions,
) -> None:
    """Show every account, the remaining budget of its states, and every run that was charged to it.

    Runs with the same number under `data` had the same data, to the byte; `changed` marks a run whose states an earlier
    run had charged for other data. Runs on data marked synthetic or public, which are charged to no account, have a
    table of their own (in --json they are those of the account null).

    **Example:** `das ledger show`, and
    `das ledger show --together census-2020 --together households-2020 --household-size 4`
    """
    if together:
        return _show_together(together, household_size, options)
    with refusing():
        book = Ledger(options.ledger_file)
        books = book.books()
        facts = [
            {
                "account": account.name,
                "definition": account.definition,
                "total": account.total,
                "unit": account.unit,
                "publisher": account.publisher,
                "spent": (spent := books.spent(account.name)),
                "left": {state: account.total - amount for state, amount in spent.items()},
                "runs": list(_runs(book, books, book.rows(account.name))),
            }
            for account in book.accounts()
        ]
        if marked := [{"run": run, "at": at, "mark": mark} for run, (at, mark) in books.marked.items()]:
            facts.append({"account": None, "runs": marked})
    show(facts, lambda: _tables(facts))


def check_ledger(
    releases: Annotated[list[Path] | None, typer.Argument(metavar="[RELEASE]...", help="Folders of releases.")] = None,
    publisher: Annotated[
        Path | None, typer.Option(help="Check signatures of acts by this public key of the publisher (Ed25519, PEM).")
    ] = None,
    *,
    options: LedgerOptions,
) -> None:
    """Check that the ledger and its journal add up, and that every RELEASE has its row; exit with 1 if not.

    The database, the chain of acts, and the spending of each account against its total are computed again. A release is
    compared with the row of its run: its digest, amount, states, and the act that reserved it. A ledger without the row
    of a release is older than the release, or not the one it was charged in.
    With the publisher's key, every act that charges an account must be signed.

    **Example:** `das ledger check out/us out/pr`
    """
    book = Ledger(options.ledger_file)
    with refusing():
        examined = book.examine()
        done = list(_checks(examined, releases or [], publisher))
    facts = [{"check": each.what, "over": each.over, "faults": list(each.faults)} for each in done]
    show(facts, lambda: Group(*map(_line, done)))
    if faults := sum(bool(each.faults) for each in done):
        raise Refused(f"{faults} of {len(done)} checks of the ledger {book.path} found a fault (docs/operations.md)")


def _line(check: Check) -> RenderableType:
    """Return a check as one line."""
    found = check.first_faults or check.over
    mark = ("wrong", "red") if check.faults else ("ok", "green")
    return Text.assemble(mark, f"  {check.what}: {found}")


def _checks(examined: Examined, releases: Sequence[Path], publisher: Path | None) -> Iterator[Check]:
    yield from (Check(what, over, tuple(faults)) for what, over, faults in examined.found)
    if publisher:
        yield _check_signatures(examined.lines, read_publisher(publisher))
    for release in releases:
        try:
            yield check_charge(release, examined)
        except Exception as error:  # the manifest is untrusted
            yield Check(f"release {release}", "", (f"the release cannot be compared: {reason_of(error)}",))


def _check_signatures(lines: Sequence[str], publisher: str) -> Check:
    """Check every signature by the publisher's key, and that each act that charges an account has one."""
    faults, signed = [], 0
    for number, line in enumerate(lines, 1):
        content, signature = signed_part(line)
        act = json.loads(content)
        signed += signature is not None
        if signature is not None and not is_signed(publisher, content, str(signature)):
            faults.append(f"the signature of act {number} is not this publisher's")
        elif signature is None and act.get("act") == "reserved":
            faults.append(f"act {number} charges {act.get('account')} and is not signed")
    return Check("signatures", f"{signed} of {len(lines)} acts are signed", tuple(faults))


def backup_ledger(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file; the journal goes to FILE.journal.")],
    *,
    options: LedgerOptions,
) -> None:
    """Copy the ledger and its journal to a new file, while runs continue.

    The copy is a whole ledger: `das ledger check --ledger FILE` checks it. As soon as another run is charged it is an
    older copy, which is refused next to the newer journal. docs/operations.md has the procedure.

    **Example:** `das ledger backup /backup/ledger-2026-11-22.sqlite`
    """
    book = Ledger(options.ledger_file)
    with refusing():
        book.backup(file)
    show({"ledger": book.path, "backup": file}, lambda: f"{book.path} and its journal are in {file}")


def restore_ledger(*, options: LedgerOptions) -> None:
    """Enter in an older or a new ledger the acts that only its journal has; or write a lost journal anew.

    The charges of these acts count again. Digests are not in the journal, so a run that is entered from it cannot be
    resumed, and a second account for its data is not noticed. The journal records that this was done, when and by whom.

    **Example:** `das ledger restore`
    """
    book = Ledger(options.ledger_file, code_names())
    with refusing():
        entered, runs = book.restore()
    facts = {"ledger": book.path, "journal": book.journal, "entered": entered, "runs_without_digests": runs}
    done = (
        f"{entered} acts of {book.journal} are entered in {book.path}" if entered else f"{book.journal} is written anew"
    )
    lost = f"; without their digests, which are lost: {', '.join(runs)}" if runs else ""
    show(facts, lambda: done + lost)


def _runs(book: Ledger, books: Books, rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Yield the runs of an account. Data is numbered in order of first use; no digest is shown."""
    data = list(dict.fromkeys(row.input_digest for row in rows))
    acts = book.acts()
    approved = {act["run"]: {"by": act["by"], "why": act["why"]} for act in acts if act["act"] == "approved"}
    charged = {act["run"]: act for act in acts if act["act"] == "reserved"}
    for row in rows:
        yield {
            "run": row.run,
            "amount": row.amount,
            "spend": books.spends[row.run].as_json(),
            "states": row.states,
            "state": row.status,
            "at": row.reserved,
            "by": {name: charged[row.run].get(name, "?") for name in ("user", "host")},
            "data": data.index(row.input_digest) + 1,
            "approved": approved.get(row.run),
            "other_data": on_other_data(row, rows),
        }


def _show_together(names: Sequence[str], size: int, options: LedgerOptions) -> None:
    """Show what accounts of persons and of households lose together; states with equal charges share a table."""
    with refusing():
        spends = charged_together(Ledger(options.ledger_file), names)
    joint = [(states, joint_rows(own, size)) for own, states in alike(spends).items()]
    facts = [{"states": states, "accounts": list(names), "changes": joint_data(rows)} for states, rows in joint]
    nothing = "nothing was charged to these accounts"
    show(facts, lambda: Group(*starmap(joint_table, joint)) if joint else nothing)


def _tables(facts: list[dict[str, Any]]) -> RenderableType:
    tables: list[RenderableType] = []
    for account in facts:
        if account["account"] is None:
            table = Table("run", "mark", "entered")
            for run in account["runs"]:
                table.add_row(run["run"], run["mark"].lower(), run["at"])
            tables += ["Runs on synthetic or public data, not charged", table]
            continue
        unit = UNITS[account["definition"]]
        table = Table("run", unit, "states", "data", "status", "by", "charged at (UTC)")
        for run in account["runs"]:
            states = run["states"]
            names = listed(states)
            if len(states) >= 6 and names != "everywhere":
                names = f"{len(states)} states"
            data = f"{run['data']}{' changed' * bool(run['other_data'])}"
            by = "{user}@{host}".format_map(run["by"])
            if run["approved"]:
                by = f"{run['approved']['by']}, as {by}"
            at = run["at"].removesuffix("+00:00").replace("T", " ")
            table.add_row(run["run"], rounded_up(run["amount"]), names, data, run["state"], by, at)
        tables.append(_remaining_table(account, unit))
        if account["runs"]:
            tables += [f"Runs charged to {account['account']}", table]
        if spends := {run["run"]: read_spend(run["spend"]) for run in account["runs"]}:
            tables.append(spend_table(spends, "run"))
        for run in account["runs"]:
            if approval := run["approved"]:
                tables.append(Text(f"{run['run']} was approved by {approval['by']}: {approval['why']}"))
    return Group(*tables) if tables else "no account is open"


def _remaining_table(account: dict[str, Any], unit: str) -> RenderableType:
    """Return the table of each state's remaining budget; states with equal sums share a row."""
    total = rounded_up(account["total"])
    signed = ", signed runs alone" if account["publisher"] else ""
    title = f"Account {account['account']}: {account['definition']}, {unit} {total} for every state, {account['unit']}s"
    table = Table("states", f"spent {unit}", f"left {unit}")
    for amount, states in sorted(alike(account["spent"]).items(), reverse=True):
        table.add_row(listed(states), rounded_up(amount), rounded_down(account["total"] - amount))
    if set(account["spent"]) != set(EVERYWHERE):
        table.add_row("all others" if account["spent"] else "all", "0", total)
    return Group(title + signed, table)
