"""`das`: the command line. Each subcommand is a file of flows/commands."""

from __future__ import annotations

import sys

import click
import typer

from flows.terminal import err
from tasks.errors import Failed, Refused

app = typer.Typer(
    name="das",
    help="Disclosure avoidance for census tables: SafeTab-P, the TopDown spine and their privacy analyses.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run `das` and leave with 0 done, 1 refused, 2 usage, 3 failed and resumable; never with a traceback."""
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.ClickException as usage:
        usage.show()
        sys.exit(2)
    except Refused as refused:
        err.print(f"[bold red]refused:[/] {refused}")
        sys.exit(1)
    except (Failed, KeyboardInterrupt, click.Abort) as failed:
        err.print(f"[bold red]stopped:[/] {failed or 'interrupted'}")
        sys.exit(3)
