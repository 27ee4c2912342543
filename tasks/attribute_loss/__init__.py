"""The inputs of the attribute-loss analyses: described persons, parameter files, PHSafe's budgets."""
