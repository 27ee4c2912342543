"""The TopDown Algorithm of a declaration: its tables, its records, its measurements and its release.

public_tables -> tabulate -> reserve and measure -> release; explain needs no records. The declaration itself, and what
follows from it, is `spine.declaration`.
"""
