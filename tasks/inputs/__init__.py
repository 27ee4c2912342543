"""What systems read: text tables, parameter files, geography, findings, the mark of synthetic data."""
