"""`das ledger`: open budget accounts and show what was charged to them."""
