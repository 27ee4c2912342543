"""The allocations of the 2020 production runs, by product: redistricting (P.L. 94-171) and DHC.

Allocations of the redistricting products are in their shipped declarations. docs/spec/spine.md#allocations has sources.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from spine.allocations import Allocation
from spine.settings import Jurisdiction, SpineSettings

_DHC_LEVELS = ("US", "State", "County", "Prim", "Tract_Subset_Group", "Tract_Subset", "Block_Group", "Block")

# Classes DecompTestStrategyDHC{P,H}[_PR]_20220922_exp_iteration_23_1 of the programs' {dhcp,dhch}_strategies.py:
# rho of each query group in each geolevel (Puerto Rico has no US level), in units of 1/10000. They add up to the
# published totals 4.96 and 7.70; the programs do not use the fractions of budget in the person configs.
_DHC: dict[tuple[str, Jurisdiction], str] = {
    ("dhc-persons", "us"): """
 73  999  310  478  478  868 430 11 age_18_64_116*relgq_4_groups
 73  999  310  478  478  868 430 11 age_18_64_116*sex
 73  999  310  478  478  868 430 11 age_38_groups*sex
 73  999  310  478  478  868 430 11 hispanic*sex
 73  999  310  478  478  868 430 11 sex*relgq_4_groups
292 3996 1240 1912 1912 3472 430 11 gq_constr_groups*age_10_groups
 73  999 1240  478  478 3472 430 11 popSehsdTargetsRelship
 73  999  310  478  478  868 430 11 hispanic*sex*age_40_groups*relship_and_eight_level_GQ*cenrace
 73  999  310  478  478  868 430 11 relgq*age_40_groups*hispanic*cenrace*sex
 73  999  310  478  478  868 430 11 detailed
""",
    ("dhc-persons", "pr"): """
1009  320  490  490  878 446 11 age_18_64_116*relgq_4_groups
1011  320  490  490  878 446 11 age_18_64_116*sex
1011  320  490  490  878 446 11 age_38_groups*sex
1011  320  490  490  878 446 11 hispanic*sex
1011  320  490  490  878 446 11 sex*relgq_4_groups
4045 1280 1961 1961 3512 446 11 gq_constr_groups*age_10_groups
1011 1280  490  490 3512 446 11 popSehsdTargetsRelship
1011  320  490  490  878 446 11 hispanic*sex*age_40_groups*relship_and_eight_level_GQ*cenrace
1011  320  490  490  878 446 11 relgq*age_40_groups*hispanic*cenrace*sex
1011  320  490  490  878 446 11 detailed
""",
    ("dhc-units", "us"): """
 792  714  986  973  973 1150  291 11 multig*hisp*hhtenshort_2lev
 212  193  266  214  214  310   78  3 hisp*hhtenshort_2lev
 212  191 1500 1500 1500 1750  442 17 hisp*hhtenshort_2lev*race
 792 1428 1972 1946 1946 2300  581 22 partner_type_detailed_own_child_status*sex*hhtenshort_2lev
 792  714 3944  973  973 4601 1162 44 coupled_hh_type*hisp*hhtenshort_2lev
 257 3216 1380  973  973 1610  407 15 sex*hisp*hhtenshort_3lev*race*DetailedCoupleTypeMultGenDetOwnChildSize
 257 3216 1380  973  973 1610  407 15 sex*hisp*hhtenshort_3lev*race*hhage*DetailedCoupleTypeMultGenDetOwnChildSize
 212  193  266  214  214  310   78  3 hhtenshort_3lev*hhage*DetailedCoupleTypeMultGenDetOwnChildSize
1049 3931 1380  973  973 1610  407 15 detailed
 259 3216 1380  973  973 1610  407 15 tenvacgq
""",
    ("dhc-units", "pr"): """
 748 1041 1054 1054 1205  346 11 multig*hisp*hhtenshort_2lev
 202  281  232  232  325   93  3 hisp*hhtenshort_2lev
 200 1584 1624 1624 1833  526 17 hisp*hhtenshort_2lev*race
1496 2082 2107 2107 2410  691 22 partner_type_detailed_own_child_status*sex*hhtenshort_2lev
 748 4164 1054 1054 4820 1382 44 coupled_hh_type*hisp*hhtenshort_2lev
3368 1457 1054 1054 1687  484 15 sex*hisp*hhtenshort_3lev*race*DetailedCoupleTypeMultGenDetOwnChildSize
3368 1457 1054 1054 1687  484 15 sex*hisp*hhtenshort_3lev*race*hhage*DetailedCoupleTypeMultGenDetOwnChildSize
 202  281  232  232  325   93  3 hhtenshort_3lev*hhage*DetailedCoupleTypeMultGenDetOwnChildSize
4117 1457 1054 1054 1687  484 15 detailed
3364 1457 1054 1054 1687  484 15 tenvacgq
""",
}


def allocation(product: str, jurisdiction: Jurisdiction) -> Allocation:
    """Return the allocation of a product's production run, US or Puerto Rico."""
    return (_pl94 if product.startswith("pl94") else _dhc)(product, jurisdiction)


def allocation_for(settings: SpineSettings, budget: Fraction | None = None) -> Allocation:
    """Return the allocation of the settings' 2020 production run, with tract groups if the settings ask for them.

    budget: another rho. Under pure DP, which no production run used, it is the epsilon and is required (ValueError).
    """
    found = allocation(settings.product, settings.jurisdiction)
    if "Tract_Group" in settings.levels:
        found = found.with_tract_groups(settings.tract_group_share)
    if settings.definition == "puredp" and budget is None:
        raise ValueError("pure DP needs a budget, for no production run used it: give one")
    return replace(found, definition=settings.definition, budget=budget or found.budget)


def _pl94(product: str, jurisdiction: Jurisdiction) -> Allocation:
    from spine.redistricting import redistricting_declaration  # which `import spine` does not need

    source = "certificates of the P.L. 94-171 production runs, 2021-06-24"
    return replace(redistricting_declaration(product, jurisdiction).allocation, source=source)


def _dhc(product: str, jurisdiction: Jurisdiction) -> Allocation:
    rows = [line.split() for line in _DHC[product, jurisdiction].strip().splitlines()]
    levels = _DHC_LEVELS if jurisdiction == "us" else _DHC_LEVELS[1:]
    rho = {level: {row[-1]: Fraction(int(row[i]), 10000) for row in rows} for i, level in enumerate(levels)}
    of_level = {level: sum(queries.values(), Fraction(0)) for level, queries in rho.items()}
    total = sum(of_level.values(), Fraction(0))
    return Allocation(
        definition="zcdp",
        budget=total,
        levels={level: share / total for level, share in of_level.items()},
        queries={level: {q: share / of_level[level] for q, share in queries.items()} for level, queries in rho.items()},
        source="strategies of the DHC production runs, 2022-09-22",
    )
