"""The mathematics of privacy: mechanisms, randomness, accounting, ledger, conversions, error, semantics."""
