"""How flows run: the cluster, the settings of a run, progress and expected work."""
