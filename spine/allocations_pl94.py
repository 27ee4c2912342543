"""Allocations of the redistricting (P.L. 94-171) production runs, as their certificates print them.

docs/spec/spine.md#allocations names the sources.
"""

from __future__ import annotations

from fractions import Fraction

from spine.allocations import Allocation
from spine.settings import Jurisdiction

# Certificates DAS-PL94171-PRODUCTION-RUN1A-202106241420-{US,PR}-{Persons,Units}: shares beta of the geolevels, then the
# shares alpha of each query group inside a geolevel ("-": not asked there). rho = 1 / global_scale^2.
_PERSONS_RHO, _UNITS_RHO = 1 / Fraction(339, 542) ** 2, 1 / Fraction(12343, 3379) ** 2

_TABLES: dict[tuple[str, Jurisdiction], str] = {
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


def allocation(product: str, jurisdiction: Jurisdiction) -> Allocation:
    """Return the allocation of `pl94-persons` or `pl94-units`, US or Puerto Rico."""
    header, beta, *queries = (line.split() for line in _TABLES[product, jurisdiction].strip().splitlines())
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
