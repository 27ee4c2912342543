"""Read runs by somebody else on the same truth, and compare ours with them."""
