"""Read the noisy measurement files of the 2020 redistricting product, as the Census Bureau published them.

inventory.py finds the files and reads their footers, rows.py validates rows, geounits.py makes the spine of the
Constraint rows, read_state.py saves it with the blocks of a state, source.py maps the answers into memory, shares.py
finds each geounit's share of the budget in its variances, totals.py has the declared totals of the states,
read_files.py does all this in order (docs/published.md).
"""
