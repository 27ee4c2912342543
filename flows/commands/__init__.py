"""The subcommands of `das`: heavy imports stay inside the functions, to keep `das --help` fast."""
