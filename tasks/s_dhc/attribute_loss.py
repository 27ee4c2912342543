"""The budgets of an S-DHC configuration, or of a release, as the attribute-loss analyses take them."""

from __future__ import annotations

from fractions import Fraction

from privacy.analyses.attribute_loss_s_dhc import Table
from tasks.lifecycle.errors import Refused
from tasks.s_dhc.budgets import Budgets

PUBLISHED = tuple(f"PH{number}" for number in range(1, 9))  # PH5_num and PH8_num are made of PH4 and PH7


def tables_of(budgets: Budgets) -> tuple[Table, ...]:
    """Return the bounded rho of each table: twice the budgets of its person counts, and once those of its unit counts.

    A unit count's stability of 2 covers the old and the new row of a unit already, so its budget is not doubled. Of
    noise by another stability the budgets are those with which the program's stability gives the same noise. Raises
    Refused under pure DP.
    """
    if budgets.definition != "zcdp":
        raise Refused(
            f"{budgets.source}: attribute loss of the S-DHC is defined for privacy_defn zcdp, not {budgets.definition}"
        )
    join, unit = dict.fromkeys(PUBLISHED, Fraction(0)), dict.fromkeys(PUBLISHED, Fraction(0))
    tau: dict[str, int | None] = dict.fromkeys(PUBLISHED)
    for query in budgets.queries:
        name = query.name.split("/")[1].partition("_")[0]
        same_noise = query.budget * query.scale("zcdp", "program") / query.scale("zcdp", budgets.stability)
        if query.tau is None:
            unit[name] += same_noise
        else:
            join[name] += 2 * same_noise
            tau[name] = query.tau
    return tuple(Table(name, join[name], unit[name], tau[name]) for name in PUBLISHED)
