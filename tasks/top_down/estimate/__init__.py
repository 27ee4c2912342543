"""Estimate histograms from noisy answers, from the top of the spine down (the program of 2020)."""
