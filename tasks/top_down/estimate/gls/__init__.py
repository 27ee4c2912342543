"""Generalized least squares over the whole spine, and margins of error from it."""
