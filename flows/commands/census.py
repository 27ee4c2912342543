"""`das census`: plan and release several products, whose losses add up, from one file."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group

from flows.commands.options import LedgerOptions, RunOptions
from flows.commands.runner import Outcome, answer_at_terminal, check_data, go_on, may_ask
from flows.execution.census_page import Charges, check_page, described, overview
from flows.execution.census_plan import PAGE, Census, CensusSettings, check_accounts, read_books, read_census
from flows.execution.crash_report import report_crash
from flows.execution.progress import bars
from flows.execution.run_status import released_place
from flows.execution.settings import ClusterSettings
from flows.execution.systems import SYSTEMS
from flows.reports.curator import findings_table, show_findings
from flows.reports.terminal import err, interruptible, is_json, show
from privacy.accounting.journal import Books
from tasks.errors import Failed, Refused
from tasks.lifecycle.private_folder import make_private
from tasks.records.files import read_text
from tasks.records.findings import REPORT, NotValid, has_errors, load_findings

Plan = Annotated[Path, typer.Argument(metavar="FILE", help="The plan: products, their settings, accounts (TOML).")]


@dataclass(frozen=True)
class CensusOptions(LedgerOptions):
    """The options of a census; everything else is in its plan."""

    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before the accounts are charged.")] = False
    cluster: ClusterSettings = field(default_factory=ClusterSettings)

    def settings(self, file: Path) -> CensusSettings:
        """Return the settings of the flow."""
        return CensusSettings(plan=str(file), **self.shared_settings(), cluster=self.cluster)


def plan(file: Plan, *, options: LedgerOptions) -> None:
    """Show what a census would charge, and what everybody would lose by all of its products together.

    Only the plan, public files and the columns of the data are read. Losses are composed exactly by change of the data,
    for the states that have the same; persons and households are never added up. The last column is how often, at most,
    somebody who knows all else is right about the change, with 5 false alarms in 100. Earlier charges of the accounts
    are not in these figures: das ledger show --together has them. Exit code 1 if the accounts could not pay.

    **Example:** `das census plan census.toml`
    """
    settings = CensusOptions(options.runs_folder, options.ledger).settings(file)
    census, charges, books = _planned(settings)
    show(described(census, charges), lambda: Group(*overview(census, charges, books)))
    check_accounts(charges)


def run(file: Plan, *, options: CensusOptions) -> None:
    """Release every product of a plan, each in a run of its own, once all of them are known to be in order.

    First every input is validated, and everything is found that an account would refuse. Then the charges are agreed to
    once, and the products are released one after the other; one that reads the release of another comes after it. If
    the command stops, the same command continues: a released product is passed over, and one that was charged continues
    with the same noise. OUT gets a folder for each product, and index.html about all of them.

    **Example:** `das census run census.toml`
    """
    settings = options.settings(file)
    text = read_text(file)
    modules = [name for each in SYSTEMS.values() if each.name in text for name in each.modules.get("", ())]
    RunOptions(options.runs_folder, options.ledger, cluster=options.cluster).start_ahead(*modules)
    census, charges, books = _planned(settings)
    if not is_json():
        err.print(Group(*overview(census, charges, books)))
    check_accounts(charges)
    try:
        _run_flow(settings, census, options)
    except (Refused, Failed) as problem:
        _show_ends(census, problem)
        raise
    _show_ends(census, None)


def _planned(settings: CensusSettings) -> tuple[Census, Charges, Books]:
    """Return a plan, its charges, and the accounts. Raises Refused, after findings are shown."""
    try:
        census = read_census(settings)
        books = read_books(census)
        charges = census.charges(books)
        check_page(census)
        for product in census.products:
            for charge in charges[product.name]:
                with product.named():
                    charge.part.check_out()
                    check_data(charge.part)
            if census.is_waiting(product):
                with product.named():
                    product.settings.check_without()
    except NotValid as refused:
        show_findings(refused.findings)
        raise
    return census, charges, books


def _run_flow(settings: CensusSettings, census: Census, options: CensusOptions) -> None:
    """Run the flow with its bars. Raises Refused, Failed; the command that continues is named."""
    from flows.census import census as flow
    from flows.execution.approval import answered_by
    from flows.execution.cluster import OneCluster
    from flows.execution.no_server import without_server

    make_private(options.home, may_be_link=True)
    again = f"continue with: das census run {settings.plan} --runs-folder {settings.runs_folder}"
    if Path(settings.ledger) != Path(settings.runs_folder) / "ledger.sqlite":
        again += f" --ledger {settings.ledger}"
    ask = may_ask(yes=options.yes)
    try:
        stopped = f"interrupted; nothing is lost; das runs list says what was charged; {again}"
        with (
            interruptible(stopped),
            OneCluster(options.home / "dask"),
            bars(f"Census {census.name}") as shown,
            answered_by(partial(answer_at_terminal, shown) if ask else go_on),
            without_server(),
        ):
            flow(settings)
    except Refused:
        raise
    except Exception as error:
        problem = error if isinstance(error, Failed) else report_crash(error)
        raise Failed(f"{problem}; {again}") from None


def _show_ends(census: Census, problem: Refused | Failed | None) -> None:
    """Show how every product ended, and the findings for which one was refused."""
    facts, lines = [], list[str]()
    own = {str(part.run_id) for product in census.products for part in product.parts}
    for product in census.products:
        for part in product.parts:
            place, findings = released_place(part), load_findings(part.directory)
            if has_errors(findings) and not is_json():
                err.print(findings_table(findings))
                err.print(f"The values are in the curator's report: {part.directory / REPORT}")
            why = None if place else problem
            outcome = Outcome(part, release=str(place) if place else None, problem=why, findings=findings)
            known = outcome.as_json() | {"product": product.name}
            known["other_data"] = [run for run in known["other_data"] if run not in own]  # runs on other files
            facts.append(known)
            lines += [f"{product.name}:", *outcome.lines(known)]
    lines += [] if problem else [f"All releases: {census.out / PAGE}"]
    show({"releases": facts, "page": str(census.out / PAGE)}, lambda: "\n".join(lines))
