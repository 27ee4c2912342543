"""Shared by all releases: tables with their description, manifest, checks, report, and pages."""
