"""The TopDown Algorithm of a declaration: its tables, its records, its measurements and its release.

public_tables -> source -> release; explain needs no records, and synth makes some. The declaration itself,
and what follows from it, is `spine.declaration`.
"""
