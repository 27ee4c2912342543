"""Public geography: blocks, regions, their names and points."""
