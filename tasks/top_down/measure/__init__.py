"""Noisy answers to the query groups, measured under the secret of a run."""
