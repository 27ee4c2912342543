"""The execution of flows: the cluster, the settings of a run, its stages as tasks, progress."""
