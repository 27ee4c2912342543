"""Estimates and standard errors of anybody's areas, from published noisy measurements (docs/published.md).

sources.py opens what was measured, tree.py keeps both passes over it, question.py estimates the areas, deviations.py
has what a districting plan adds, published.py the published counts beside them, report.py the files and the page.
"""
