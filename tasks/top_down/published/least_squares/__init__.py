"""Read the Census Bureau's unbiased estimates, and compare our own with them."""
