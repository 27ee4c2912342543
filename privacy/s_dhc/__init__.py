"""The stability of the queries of the Supplemental DHC, and the spend of a run that answers them."""
