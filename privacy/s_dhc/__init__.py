"""What the queries of the Supplemental DHC change by, and what a run that answers them spends."""
