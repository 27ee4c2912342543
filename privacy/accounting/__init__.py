"""What a run spends and what has been charged: stability, composition, conversions, the ledger."""
