"""What a run of the TopDown Algorithm spends, and whom that covers (docs/privacy.md#the-topdown-algorithm)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from privacy.accounting.composition import Relation, Spend, UnitOfPrivacy
from privacy.accounting.states import STATES_US
from privacy.noise.laws import Definition
from spine.declaration.declaration import Declaration
from tasks.top_down.run_plan import Design

RECORDS: dict[str, str] = {"persons": "person", "units": "housing unit"}  # a record of each product
WITHIN, UNCHANGED = "within a state, declared counts unchanged", "all declared figures unchanged"


def planned_spend(design: Design, *, nation: bool) -> Spend:
    """Return what a run spends, with the US level or without it."""
    return compose(design.definition, {product: design.cost(product, nation) for product in design.products})


def planned_spends(design: Design) -> dict[str, Spend]:
    """Return what a run spends, with the US level and without it where that depends on the states of the data."""
    fewer = 0 < len(set(design.states)) < len(STATES_US)
    if fewer or design.nation is not None or design.jurisdiction == "pr":
        return {design.jurisdiction.upper(): planned_spend(design, nation=bool(design.nation))}
    return {
        "US, all states": planned_spend(design, nation=True),
        "US, fewer states": planned_spend(design, nation=False),
    }


def compose(definition: Definition, costs: Mapping[str, Fraction]) -> Spend:
    """Compose the products: two mechanisms on two tables, so a record of each replaced costs their sum.

    costs: by product, of replacing one record within its state. The totals of states, housing units and group quarters
    by block are declared and published as they are: what changes one of them is not covered.
    """
    charged = sum(costs.values(), Fraction(0))
    names = [f"a {RECORDS[product]}" for product in costs]
    relations = [
        Relation(f"{product}_replaced", f"{name} replaced {WITHIN}", cost)
        for name, (product, cost) in zip(names, costs.items(), strict=True)
    ]
    if len(costs) > 1:
        relations.insert(0, Relation("both_replaced", f"{' and '.join(names)} replaced, each {WITHIN}", charged))
    either = " or ".join(names)
    relations += [
        Relation("added_or_removed", f"{either} added or removed", None),
        Relation("moved", f"{either} replaced by one of another state", None),
    ]
    return Spend(definition, "person", charged, tuple(relations))


def declared_spend(declaration: Declaration, groups: Sequence[str]) -> Spend:
    """Return what a run of a declaration spends: the budget, for one record replaced by another.

    groups: what two such records agree in, as declared figures fix numbers of records (`spine/declaration/fixed.py`).
    Where they fix a number, both are of one group of it; adding or removing a record would change the number, if only
    of some parts. Where they fix none, adding or removing one changes half as many answers: half the budget (Lemmas 3
    and 4 of the spine paper).
    """
    form, record, budget = declaration.form, f"a {declaration.form.records}", declaration.form.budget
    unchanged = f", {UNCHANGED}" if form.totals or form.counts or form.equal or form.zeros else ""
    unit: UnitOfPrivacy = form.unit or ("household" if form.records == "household" else "person")
    relations: tuple[Relation, ...]
    if not groups:
        relations = (
            Relation("replaced", f"{record} replaced by another{unchanged}", budget),
            Relation("added_or_removed", f"{record} added or removed{unchanged}", budget * Fraction(1, 2)),
        )
    else:
        within = " and its ".join(groups)
        relations = (
            Relation("replaced_within", f"{record} replaced by another of its {within}, {UNCHANGED}", budget),
            Relation("added_or_removed", f"{record} added or removed", None),
            Relation("moved", f"{record} replaced by one of another {' or '.join(groups)}", None),
        )
    return Spend(declaration.definition, unit, budget, relations)
