"""Noise for a table of your own, charged to an account: what a survey or a register can do with `privacy` alone.

python examples/measure_a_table.py FOLDER 1/2
"""

import sys
from fractions import Fraction
from pathlib import Path

import numpy as np

import das_flows as das

folder, rho = Path(sys.argv[1]), Fraction(sys.argv[2])
counts = np.array([[412, 380, 55], [398, 402, 71], [3, 0, 12]])  # confidential: persons by age group and district
noise = das.law("zcdp", rho, stability=1)  # who is added or removed changes one count by one

folder.mkdir(parents=True, exist_ok=True)
ledger = das.Ledger(folder / "ledger.sqlite")
if not ledger.exists():
    ledger.open_account(das.Account("register", "zcdp", Fraction(1)))
run = f"table-{len(ledger.rows('register')) + 1}"
request = das.Request(
    run, "register", ("44",), das.spend("zcdp", [rho]), "table", "by age and district", 1, ("register of 2020",)
)
secret = das.RunSecret.generate()
try:
    ledger.reserve(request, make_secret=secret.digest)  # the charge comes first: without it nothing is drawn
except das.LedgerError as error:
    sys.exit(f"refused: {error}")

table = das.measure(counts, noise, secret=secret, query=run)
print(f"rho {rho}, epsilon {das.epsilon(rho, delta=1e-10):.3f} at delta 1e-10; account {ledger.spent('register')}")
print(table.counts)
print(f"each count within {table.margin()}, a row's sum within {table.margin(cells=3)}, with probability 95%")
