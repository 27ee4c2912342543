"""The two-tailed geometric bottom-up mechanism over a table of records."""
