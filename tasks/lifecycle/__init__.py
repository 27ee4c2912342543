"""The parts common to all runs: directory, workers, the confidential wall, secret, commit, manifest."""
