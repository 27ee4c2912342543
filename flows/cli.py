"""`das`: the command line. Each subcommand is a file of flows/commands."""

from __future__ import annotations

import sys

import typer
from rich.markup import escape

from flows.commands import attribute_loss, bottom_up, ledger, runs
from flows.commands.accuracy import accuracy
from flows.commands.compare import compare
from flows.commands.demo import demo
from flows.commands.run import run
from flows.commands.spine import spine
from flows.commands.synth import synth
from flows.commands.truth import truth
from flows.commands.tune import tune
from flows.commands.validate import validate
from flows.reports.terminal import err, unforeseen
from tasks.lifecycle.core_dumps import no_core_dumps
from tasks.lifecycle.errors import Failed, Refused

INTERRUPTED = 130  # typer's exit code after Ctrl-C

app = typer.Typer(
    name="das",
    help="Disclosure avoidance for census tables: SafeTab-P, the TopDown spine and their privacy analyses.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)
app.command()(validate)
app.command()(run)
app.command()(truth)
app.command()(accuracy)
app.command()(synth)
app.command()(spine)
app.command()(compare)
app.command()(tune)
app.add_typer(ledger.app, name="ledger")
app.add_typer(runs.app, name="runs")
app.add_typer(attribute_loss.app, name="attribute-loss")
app.add_typer(bottom_up.app, name="bottom-up")


@app.callback()
def _group() -> None:
    """Keeps the commands subcommands, however few they are."""


def main() -> None:
    """Run `das` and leave with 0 done, 1 refused, 2 usage, 3 failed and resumable; never with a traceback."""
    no_core_dumps()  # of persons and the run's secret
    try:
        app()
    except SystemExit as done:
        if done.code == INTERRUPTED:
            _say("stopped", Failed("interrupted"), 3)
        sys.exit(done.code)
    except Refused as refused:
        _say("refused", refused, 1)
    except Failed as failed:
        _say("stopped", failed, 3)
    except Exception as error:
        _say("stopped", unforeseen(error), 3)


def _say(word: str, error: Exception, code: int) -> None:
    err.print(f"[bold red]{word}:[/] {escape(str(error))}", soft_wrap=True)
    sys.exit(code)
