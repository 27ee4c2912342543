"""`das sdhc`: the Supplemental DHC, persons joined with their housing units in tables PH1 to PH8."""
