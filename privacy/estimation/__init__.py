"""Post-processing of noisy counts. Draws nothing and reads nothing confidential."""
