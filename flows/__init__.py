"""What a person starts: the Prefect flows, their parameters, the cluster they use, the command line."""
