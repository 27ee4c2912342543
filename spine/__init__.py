"""The geographic spine of the TopDown Algorithm (TDA): build it, measure it, optimize it.

Everything here follows "Geographic Spines in the 2020 Census Disclosure Avoidance System" (Cumings-Menon et al.),
called the paper; docs/spec/spine.md has what the programs of 2020 chose. Pure array code: no files, no Prefect or Dask.
"""
