"""The allocations of the 2020 production runs, by product: redistricting (P.L. 94-171) and DHC.

docs/spec/spine.md#allocations names the sources.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from spine.allocations import Allocation
from spine.settings import Jurisdiction, SpineSettings

# Certificates DAS-PL94171-PRODUCTION-RUN1A-202106241420-{US,PR}-{Persons,Units}: shares beta of the geolevels, then the
# shares alpha of each query group inside a geolevel ("-": not asked there). rho = 1 / global_scale^2.
_PERSONS_RHO, _UNITS_RHO = 1 / Fraction(339, 542) ** 2, 1 / Fraction(12343, 3379) ** 2

_PL94: dict[tuple[str, Jurisdiction], str] = {
    ("pl94-persons", "us"): """
query                       US        State      County     Tract      Block_Group  Block
beta                        104/4099  1440/4099  447/4099   687/4099   1256/4099    165/4099
total                       -         3773/4097  3126/4097  1567/4102  1705/4099    5/4097
cenrace                     52/4097   6/4097     10/4097    4/2051     3/4099       9/4097
hispanic                    26/4097   6/4097     10/4097    5/4102     3/4099       5/4097
votingage                   26/4097   6/4097     10/4097    5/4102     3/4099       5/4097
hhinstlevels                26/4097   6/4097     10/4097    5/4102     3/4099       5/4097
hhgq                        26/4097   6/4097     10/4097    5/4102     3/4099       5/4097
hispanic*cenrace            130/4097  12/4097    28/4097    1933/4102  1055/4099    21/4097
votingage*cenrace           130/4097  12/4097    28/4097    10/2051    9/4099       21/4097
votingage*hispanic          26/4097   6/4097     10/4097    5/4102     3/4099       5/4097
votingage*hispanic*cenrace  26/241    2/241      101/4097   67/4102    24/4099      71/4097
detailed                    189/241   230/4097   754/4097   241/2051   1288/4099    3945/4097
""",
    ("pl94-persons", "pr"): """
query                       State     County     Tract      Block_Group  Block
beta                        689/4099  695/4099   772/4099   1778/4099    165/4099
total                       -         3126/4097  1467/4102  1876/4103    5/4097
cenrace                     11/108    10/4097    13/4102    4/4103       9/4097
hispanic                    11/108    10/4097    1/586      4/4103       5/4097
votingage                   11/108    10/4097    1/586      4/4103       5/4097
hhinstlevels                11/108    10/4097    1/586      4/4103       5/4097
hhgq                        11/108    10/4097    1/586      4/4103       5/4097
hispanic*cenrace            53/513    28/4097    866/2051   749/4103     21/4097
votingage*cenrace           53/513    28/4097    15/2051    10/4103      21/4097
votingage*hispanic          11/108    10/4097    1/586      4/4103       5/4097
votingage*hispanic*cenrace  56/513    101/4097   50/2051    27/4103      71/4097
detailed                    25/342    754/4097   725/4102   1417/4103    3945/4097
""",
    ("pl94-units", "us"): """
query     US     State  County  Tract     Block_Group  Block
beta      1/205  1/205  7/82    364/1025  1759/4100    99/820
detailed  1      1      1       1         1            1
""",
    ("pl94-units", "pr"): """
query     State        County        Tract         Block_Group    Block
beta      5047/876580  18746/219145  94451/262974  281911/657435  99/820
detailed  1            1             1             1              1
""",
}


_DHC_LEVELS = ("US", "State", "County", "Prim", "Tract_Subset_Group", "Tract_Subset", "Block_Group", "Block")

# Classes DecompTestStrategyDHC{P,H}[_PR]_20220922_exp_iteration_23_1 of the programs' {dhcp,dhch}_strategies.py:
# rho of each query group in each geolevel (Puerto Rico has no US level), in units of 1/10000. These add up to the
# published totals 4.96 and 7.70; the fractions of budget in the person configs are not used by the programs.
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
    """Return the allocation of the settings' 2020 production run, with tract groups where they are asked for.

    budget: another rho; under pure DP, which no production run used, the epsilon (ValueError without one).
    """
    found = allocation(settings.product, settings.jurisdiction)
    if "Tract_Group" in settings.levels:
        found = found.with_tract_groups(settings.tract_group_share)
    if settings.definition == "puredp" and budget is None:
        raise ValueError("pure DP needs a budget, for no production run used it: give one")
    return replace(found, definition=settings.definition, budget=budget or found.budget)


def _pl94(product: str, jurisdiction: Jurisdiction) -> Allocation:
    header, beta, *queries = (line.split() for line in _PL94[product, jurisdiction].strip().splitlines())
    names = header[1:]
    return Allocation(
        definition="zcdp",
        budget=_PERSONS_RHO if product == "pl94-persons" else _UNITS_RHO,
        levels={level: Fraction(share) for level, share in zip(names, beta[1:], strict=True)},
        queries={
            level: {row[0]: Fraction(row[column]) for row in queries if row[column] != "-"}
            for column, level in enumerate(names, start=1)
        },
        source="certificates of the P.L. 94-171 production runs, 2021-06-24",
    )


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
