"""The subcommands of `das`, one file each; heavy imports stay inside the functions, so that `das --help` is quick."""
