"""What the budget of one population group level buys: margins of error and the threshold of suppression, exact.

python examples/what_a_budget_buys.py 0.159 0.5 2.134
"""

import sys
from fractions import Fraction

from das_flows import law, margin_of_error, query_budgets, suppression_threshold

STABILITY = 9  # groups of a level that a record can be in: production's parameter files (docs/privacy.md)
GAMMA = Fraction(1, 10)  # the share of step 1, which only chooses the detail
AGES = (4, 9, 23)  # of the tables of sex by age
EMPTY_STAYS_HIDDEN = Fraction("0.9999")  # P(a group of size 0 is suppressed)

print("95% margins of error in persons, stability 9, step 1 takes a tenth; zCDP, then pure DP\n")
print(f"{'budget':>8} {'step 1':>8} {'cell':>8}", *(f"{ages} ages".rjust(8) for ages in AGES), f"{'threshold':>10}")
for definition in ("zcdp", "puredp"):
    for budget in map(Fraction, sys.argv[1:] or ("0.159", "0.5", "2.134")):
        share = query_budgets(budget, GAMMA)
        chooses, cell = (law(definition, part, STABILITY) for part in (share["stage_1"], share["stage_2"]))
        margins = [
            margin_of_error(chooses),
            *(margin_of_error(cell, cells) for cells in (1, *(2 * ages for ages in AGES))),
        ]
        threshold = suppression_threshold(cell, EMPTY_STAYS_HIDDEN)
        print(f"{float(budget):8g}", *(f"{margin:8,}" for margin in margins), f"{threshold:10,}")
    print()
