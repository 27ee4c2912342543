"""The subcommands of `das`. Heavy imports are inside the functions, which keeps `das --help` fast."""
