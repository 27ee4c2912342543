"""Read the noisy measurement files of the 2020 redistricting product, as the Census Bureau published them.

inventory.py finds the files and reads their footers, rows.py validates rows, geounits.py makes the spine from the
Constraint rows, source.py saves it with a state's blocks, and maps the answers into memory, shares.py infers each
geounit's share of the budget from its variances, census_2020.py has the declared totals of the states, and
read_files.py runs these steps in order (docs/published.md).
"""
