"""`das attribute-loss`: the privacy loss when some attributes of one person change."""
