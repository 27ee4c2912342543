"""The figures on margins, budgets, suppression and epsilon as printed in the papers.

A: "SafeTab[Geometric] vs SafeTab[Discrete Gaussian]", Tables 1 (the same as 4) and 2. B: SafeTab-P, Tables 6 and 7.
Both have stability 9, gamma .1 and, where one is needed, delta 1e-10.

How the printed budgets arise: a total is the recipe's, rounded to three places (rho) or two (epsilon, with ln 20 taken
as 2.99); step 2 is 90% of that rounded total; bounded is twice the rounded unbounded figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from privacy.noise.laws import Definition

F = Fraction
STABILITY = 9
GAMMA = F(1, 10)
DELTA = F(1, 10**10)


@dataclass(frozen=True)
class PrintedBudget:
    """Step 2 and total of one level, unbounded, in the paper's digits."""

    step_2: str
    total: str


@dataclass(frozen=True)
class PrintedTable:
    """A paper's table of margin targets (counts, by level) and, by mechanism and target, the budgets it prints."""

    name: str
    targets: Mapping[str, int]
    budgets: Mapping[Definition, Mapping[int, PrintedBudget]]


REGIONAL = 50  # the target of every Regional level, in both papers
COUNTY, OF_REGIONAL = {11: PrintedBudget("0.143", "0.159")}, {REGIONAL: PrintedBudget("0.007", "0.008")}  # rho, too


def _targets(detailed: Mapping[str, int], regional: Iterable[str]) -> dict[str, int]:
    named = {f"{place}, Detailed": margin for place, margin in detailed.items()}
    return named | {f"{place}, Regional": REGIONAL for place in regional}


COMPARISON = PrintedTable(
    "comparison paper, Tables 1 and 4",
    _targets({"Nation": 6, "State": 6, "County": 11, "AIANNH": 11}, ("Nation", "State", "County")),
    {
        "puredp": {
            6: PrintedBudget("3.84", "4.27"),
            11: PrintedBudget("2.24", "2.49"),
            REGIONAL: PrintedBudget("0.531", "0.59"),
        },
        "zcdp": {6: PrintedBudget("0.481", "0.534"), **COUNTY, **OF_REGIONAL},
    },
)
PRODUCTION = PrintedTable(
    "SafeTab-P paper, Table 7",
    _targets(
        {"Nation": 3, "State": 3, **dict.fromkeys(("County", "Tract", "Place", "AIANNH"), 11)},
        ("Nation", "State", "County", "Tract", "Place"),
    ),
    {"zcdp": {3: PrintedBudget("1.921", "2.134"), **COUNTY, **OF_REGIONAL}},
)
TABLES = {"comparison": COMPARISON, "production": PRODUCTION}

LOSSES = {"puredp": "15.3", "rdp_printed": "13.2", "zcdp_analytic": "12.8", "zcdp_numeric": "12.2"}
"""A's Table 2. No reading that A describes gives its 13.2: eq. (39) as written gives 13.57."""
