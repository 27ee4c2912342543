"""Estimates and standard errors of a user's areas, from published noisy measurements (docs/published.md).

state_cache.py saves the trees of states, estimate_areas.py estimates the areas, deviations.py adds the statistics of a
districting plan, published_counts.py reads published counts for comparison, report.py writes the files and the page.
"""
