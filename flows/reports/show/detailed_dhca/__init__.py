"""A Detailed DHC-A release, as the page shows it: regions, iterations and their groups."""
