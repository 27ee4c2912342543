"""Read the noisy measurement files of the 2020 redistricting product, as the Census Bureau published them.

inventory.py finds the files and reads their footers, rows.py validates rows, geounits.py makes the spine from the
Constraint rows, read_state.py saves it with a state's blocks, source.py maps the answers into memory, shares.py infers
each geounit's share of the budget from its variances, totals.py has the declared totals of the states, and
read_files.py runs these steps in order (docs/published.md).
"""
