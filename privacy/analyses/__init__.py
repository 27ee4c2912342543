"""The papers' analyses: comparison, tuning, attribute loss, the accuracy curve."""
