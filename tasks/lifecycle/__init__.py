"""What every run has, whatever it computes: run directory, workers, the confidential wall, secret, commit, manifest."""
