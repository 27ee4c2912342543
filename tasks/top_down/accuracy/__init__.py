"""Measure the errors of estimators and spines on synthetic data, and report them."""
