"""`das attribute-loss`: what a change of some attributes of one person can cost."""
