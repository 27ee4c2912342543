"""A census: several products as one flow of flows, all of them planned and agreed to before the first is charged.

every product: parameters, account, input -> the sums of every account -> one agreement -> each product in turn
(one that reads another's release: its input as far as possible)                          (a flow of its own)

A product that is released is passed over; one that was charged continues with the same noise. So the flow of the same
plan continues a census, whatever ended it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger
from prefect.states import Completed
from prefect.states import Failed as FailedState

from flows.execution import states
from flows.execution.approval import answer, answered_by, charge_words, second_charge
from flows.execution.census_page import check_page, write_page
from flows.execution.census_plan import Census, CensusSettings, Charge, Product, check_accounts, read_books, read_census
from flows.execution.policy import under_policy
from flows.execution.run import finished, flow_options, prepare
from flows.execution.run_status import released_place
from flows.reports.terminal import stay_interruptible
from tasks.errors import Failed, Refused, all_or_none
from tasks.lifecycle.private_folder import make_private
from tasks.lifecycle.run_directory import exclusive, locked


@flow(name="census", **flow_options(4))
def census(settings: CensusSettings) -> Any:
    """Release the products of a plan, each in a run of its own; returns the path of the page about them."""
    stay_interruptible()
    try:
        settings = under_policy(settings, "census")
        plan, home = read_census(settings), Path(settings.runs_folder)
        make_private(home, may_be_link=True)
        with exclusive(home / f"census-{plan.name}.lock", f"census {plan.name}"):
            page = carry_out(plan, charges_of_input(plan))
    except Refused as error:
        return states.refused(error)
    except Failed as error:
        return FailedState(message=f"{error}; the same flow with the same plan continues", data=error)
    return Completed(message=f"released: {plan.out}", data=str(page))


def charges_of_input(plan: Census) -> dict[str, list[Charge]]:
    """Check the input of every product that is not charged yet; return all charges, by product, once agreed to.

    A product that waits for a release is charged by its configuration.

    Raises Refused for the faults of all products, and ends the runs that were prepared here.
    """
    found = plan.charges(read_books(plan))
    check_page(plan)
    prepared = list[Product]()
    checks = {
        f"{each.key} ({each.name})": partial(_check_product, plan, each, found[each.name], prepared)
        for each in plan.products
    }
    with _ending(prepared):
        found = dict(zip(found, all_or_none(checks), strict=True))
        check_accounts(found)
        asked = [charge for own in found.values() for charge in own if charge.is_new]
        if asked and not answer(_charged_before(asked), _words(asked)):
            raise Refused("the charges were not agreed to: nothing was charged")
    return found


def _check_product(plan: Census, product: Product, planned: list[Charge], prepared: list[Product]) -> list[Charge]:
    """Refuse a product that could not be released as planned; return its charges, by its input if it is validated."""
    made = [charge for charge in planned if charge.made or released_place(charge.part)]
    if product.is_over:  # refuse another configuration, and a release that is not in its place
        for charge in made:
            finished(charge.part)
    if product.is_over or (product.may_draw and not any(charge.is_new for charge in planned)):
        return planned
    if plan.is_waiting(product):
        get_run_logger().info("%s waits for %s", product.name, ", ".join(product.waits_for))
        product.settings.check_without()
        return planned
    prepared.append(product)
    claims = prepare(product.rest)
    parts = [charge.part for charge in planned if charge not in made]
    charges = [*made, *(Charge(part, claim, claim.mark) for part in parts if (claim := claims.get(part.folder)))]
    if not charges:
        raise Refused("it has nothing to release: leave it out of the plan")
    return charges


@contextmanager
def _ending(prepared: Sequence[Product]) -> Iterator[None]:
    """End the runs of prepared products if the block is refused, except those with findings, or in use elsewhere."""
    try:
        yield
    except Refused:
        for part in (part for product in prepared for part in product.parts if part.directory.path.exists()):
            with suppress(Refused), locked(part.directory):  # another process has it
                part.end_refused()
        raise


def _words(asked: Sequence[Charge]) -> str:
    """Return the charges in words."""
    amounts = [
        f"{each.claim.spend.charged_row().cells[0]} of {each.part.account} by {each.part.run_id}" for each in asked
    ]
    return " and ".join(amounts)


def _charged_before(asked: Sequence[Charge]) -> str:
    """Return what the data was charged before, as far as it was read."""
    earlier = [
        f"the data of {charge.part.run_id} {words[0]}"
        for charge in asked
        if charge.claim.given and (words := second_charge(charge.part, charge.claim))
    ]
    return "; ".join(["nothing is charged yet", *earlier])


def carry_out(plan: Census, charges: Mapping[str, Sequence[Charge]]) -> Path:
    """Release every product that is not released, in turn; return the page, which is written after each.

    Nothing is charged besides these charges. Raises Failed if a product ends without a release.
    """
    page = write_page(plan, charges)
    for product in plan.products:
        if product.is_over:
            continue
        own = charges[product.name]
        agreed = {
            str(each.part.run_id): charge_words(each.part, each.claim) for each in own if each.made or each.is_new
        }
        settings = product.rest.model_copy(update={"agreed": agreed})
        already_asked = all(charge.claim.given or not charge.is_new for charge in own)
        with answered_by(lambda *_: True) if already_asked else nullcontext(), product.named():
            settings.system.part("flow")(settings)
        if not product.is_over:
            raise Failed(f"{product.key} ({product.name}): its run ended without a release")
        page = write_page(plan, charges)
    return page
