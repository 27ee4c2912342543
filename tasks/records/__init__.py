"""Reading: records and public tables, what is found wrong with them, digests, and the mark of made-up data."""
