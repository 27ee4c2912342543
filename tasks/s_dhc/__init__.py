"""The Supplemental DHC (PHSafe; tables PH1 to PH8): persons joined with their housing units, counted with noise."""
