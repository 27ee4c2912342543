"""What a run of a declaration spends, and which databases it makes hard to tell apart."""

from __future__ import annotations

from fractions import Fraction

from privacy.accounting.composition import Relation, Spend, UnitOfPrivacy
from spine.declaration.declaration import Declaration

UNCHANGED = "all declared figures unchanged"


def planned_spend(declaration: Declaration) -> Spend:
    """Return what a run spends: the budget, for one record replaced by another.

    Where a number of records is declared, both are of one group of it; adding or removing a record would change the
    number, if only of some parts. Where none is, adding or removing one changes half as many answers: half the budget
    (Lemmas 3 and 4 of the spine paper).
    """
    form, record, budget = declaration.form, f"a {declaration.form.records}", declaration.form.budget
    unit: UnitOfPrivacy = form.unit or ("household" if form.records == "household" else "person")
    groups = form.fixed_groups
    relations: tuple[Relation, ...]
    if not groups:
        relations = (
            Relation("replaced", f"{record} replaced by another, {UNCHANGED}", budget),
            Relation("added_or_removed", f"{record} added or removed, {UNCHANGED}", budget * Fraction(1, 2)),
        )
    else:
        within = " and its ".join(groups)
        relations = (
            Relation("replaced_within", f"{record} replaced by another of its {within}, {UNCHANGED}", budget),
            Relation("added_or_removed", f"{record} added or removed", None),
            Relation("moved", f"{record} replaced by one of another {' or '.join(groups)}", None),
        )
    return Spend(declaration.definition, unit, budget, relations)
