"""`das tda`: the TopDown Algorithm, from records to a private database by block."""
