"""`das runs`: the confidential directories of runs that have not ended."""
