"""Estimates and standard errors of anybody's areas, from published noisy measurements (docs/published.md).

kept.py keeps what passed up the states, estimate_areas.py estimates the areas, deviations.py has what a districting
plan adds, published.py the published counts next to them, report.py the files and the page.
"""
