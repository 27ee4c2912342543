"""Repeated runs on synthetic data against the truth: what `das accuracy` does."""
