"""The subcommands of `das`, one file each. Heavy imports stay inside the functions to keep `das --help` fast."""
