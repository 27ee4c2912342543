"""Read published noisy measurements and microdata."""
