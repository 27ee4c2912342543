"""One made-up population: its steps, each a file. Arrays in, arrays out; no step knows a file.

A tract's persons and units depend on the seed, on its own blocks, on the laws of its state and on its place in its
country alone: every draw is addressed by seed, purpose, tract and row (`compiled_draws`). Shares that are called
"own" are this project's rounded shapes, drawn from no microdata.
"""
