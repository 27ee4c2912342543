"""Synthetic persons over real or made-up geography: what `das synth` does."""
