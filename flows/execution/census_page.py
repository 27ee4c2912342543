"""A census for its curator and its readers: what it charges, what each change loses in all, and one page about it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from flows.execution.census_plan import PAGE, Census, Charge, Product
from flows.execution.systems import SYSTEMS
from flows.reports.curator import joint_data, joint_table
from privacy.accounting.composition import SpendRow, rounded_down, rounded_up
from privacy.accounting.journal import Books
from privacy.accounting.states import EVERYWHERE, alike, listed
from privacy.accounting.together import by_state, joint_rows
from privacy.noise.laws import UNITS
from tasks.errors import Refused
from tasks.lifecycle.files import atomic_path
from tasks.releases.pages import render

Charges = Mapping[str, Sequence[Charge]]  # each product's, by its name


def joint(charges: Charges) -> list[tuple[list[str], list[SpendRow]]]:
    """Return what all products lose together under each change; states with equal spends are together."""
    spends = by_state((charge.claim.spend, charge.claim.states) for own in charges.values() for charge in own)
    return [(states, joint_rows(own)) for own, states in alike(spends).items()]


def overview(plan: Census, charges: Charges, books: Books) -> Iterator[RenderableType]:
    """Yield the tables of a plan: the products in their order, the accounts, and what each change loses."""
    table = Table("product", "release", "charge", "account", "states", "waits for", title_justify="left")
    table.title = f"Census {plan.name}: {plan.out}"
    for product in plan.products:
        for charge in charges[product.name]:
            table.add_row(product.name, charge.part.folder, *_charge(charge), ", ".join(product.waits_for))
    yield table
    if rows := list(_accounts(charges, books)):
        accounts = Table("account", "unit of privacy", "charged at most to a state", "left in it, after this census")
        for row in rows:
            accounts.add_row(*row)
        yield accounts
    for states, changes in joint(charges):
        yield joint_table(states, changes)


def _charge(charge: Charge) -> tuple[str, str, str]:
    """Return a charge, its account or why it is not charged, and its states."""
    account = f"{charge.part.account}, charged" if charge.made else charge.part.account or "not named"
    if charge.mark and not charge.made:
        account = f"none: {charge.mark.lower()} data"
    return charge.claim.spend.charged_row().cells[0], account, _states(charge.claim.states)


def _states(states: Sequence[str]) -> str:
    """Return states in words: their codes, or how many."""
    return listed(states) if len(states) < 6 or len(states) == len(EVERYWHERE) else f"{len(states)} states"


def _accounts(charges: Charges, books: Books) -> Iterator[tuple[str, str, str, str]]:
    """Yield, for each account that is charged, its unit, the most that a state is charged, and the rest."""
    new = [
        charge for own in charges.values() for charge in own if charge.is_new and charge.part.account in books.accounts
    ]
    for name in dict.fromkeys(str(charge.part.account) for charge in new):
        account, asked = books.accounts[name], dict[str, Fraction]()
        for charge in (each for each in new if each.part.account == name):
            amount = charge.claim.spend.charged_in(account.definition)
            asked |= {state: asked.get(state, Fraction(0)) + amount for state in charge.claim.states}
        state, left = books.remaining(name, asked, asked)
        unit = UNITS[account.definition]
        yield name, account.unit, f"{unit} {rounded_up(max(asked.values()))}", f"{unit} {rounded_down(left)} ({state})"


def described(plan: Census, charges: Charges) -> dict[str, Any]:
    """Return the plan for `--json`."""
    products = [
        {
            "product": product.name,
            "system": product.settings.SYSTEM,
            "run": charge.part.run_id,
            "release": charge.part.folder,
            "account": charge.part.account if charge.made or charge.is_new else None,
            "mark": charge.mark,
            "charged": charge.made,
            "waits_for": product.waits_for,
            "states": charge.claim.states,
            "spend": charge.claim.spend.as_json(),
        }
        for product in plan.products
        for charge in charges[product.name]
    ]
    together = [{"states": states, "changes": joint_data(rows)} for states, rows in joint(charges)]
    return {"census": plan.name, "out": str(plan.out), "products": products, "together": together}


def check_page(plan: Census) -> None:
    """Refuse an OUT with anything that the page, which is about all releases in it, would not name."""
    page = plan.out / PAGE
    if page.exists() and _generator(plan) not in page.read_text("utf-8", "replace"):
        raise Refused(f"out: {page} is not the page of census {plan.name}: choose another folder")
    names = {PAGE, *(product.name for product in plan.products)}
    there = plan.out.iterdir() if plan.out.is_dir() else ()
    if others := sorted(path.name for path in there if path.name not in names and not path.name.startswith(".")):
        raise Refused(f"out: {plan.out} holds {others[0]}, which is not a product of the plan: choose another folder")


def _generator(plan: Census) -> str:
    return f'<meta name="generator" content="das census {plan.name}">'


def write_page(plan: Census, charges: Charges) -> Path:
    """Write the page about a census into OUT: its releases, what waits for what, and what each change loses."""
    plan.out.mkdir(parents=True, exist_ok=True)
    products = [_product(plan, product, charges[product.name]) for product in plan.products]
    together = [(_states(states), rows) for states, rows in joint(charges)]
    facts = {"census": plan, "generator": _generator(plan), "products": products, "together": together}
    with atomic_path(plan.out / PAGE) as temporary:
        temporary.write_text(render("flows.execution", "census.html", **facts), "utf-8")
    return plan.out / PAGE


def _product(plan: Census, product: Product, charges: Sequence[Charge]) -> dict[str, Any]:
    """Return a product for the page."""
    places = {place.name: os.path.relpath(place, plan.out) for place in product.releases}
    return {
        "name": product.name,
        "title": SYSTEMS[product.settings.SYSTEM].title,
        "waits_for": product.waits_for,
        "parts": [(charge, places.get(charge.part.folder)) for charge in charges],
    }
