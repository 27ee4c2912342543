"""How much the queries of the Supplemental DHC can change, and what a run that answers them spends."""
