"""The spend of a run and the charges of accounts: stability, composition, conversions, the ledger."""
