"""Shared by both SafeTabs: population groups, their levels, domain, exact counts, coterminous regions, tables."""
