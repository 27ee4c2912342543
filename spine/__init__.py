"""The geographic spine of the TopDown Algorithm (TDA): build it, measure it, optimize it.

Everything here follows "Geographic Spines in the 2020 Census Disclosure Avoidance System" (Cumings-Menon et al.),
called the paper; "spec" is the text that restores its mathematics. Pure array code: no files, no Prefect, no Dask.
"""
