"""The two-tailed geometric bottom-up mechanism: its histogram, what it spends, calibration to published totals."""
