"""`das`: the command line. Each subcommand, or group of small ones, is a file of flows/commands."""

from __future__ import annotations

import errno
import signal
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from typer.core import TyperGroup

from flows.commands import accuracy, attribute_loss, bottom_up, ledger, runs
from flows.commands.check import check
from flows.commands.compare import compare
from flows.commands.demo import demo
from flows.commands.fields import with_options
from flows.commands.show import show
from flows.commands.spine import spine
from flows.commands.synth import synth
from flows.commands.systems import BOTTOM_UP, DETAILED_DHCA, DETAILED_DHCB, S_DHC, TOP_DOWN, run, truth, validate
from flows.commands.tabulate import tabulate
from flows.commands.tda import accuracy as tda_accuracy
from flows.commands.tda import areas, declared, inputs, published
from flows.commands.tune import tune
from flows.execution.crash_report import report_crash
from flows.reports.terminal import err, labelled
from spine.fault_words import first_fault
from tasks.errors import Failed, Refused
from tasks.lifecycle.process import no_core_dumps

INTERRUPTED = 130  # typer's exit code after Ctrl-C
OF_A_PATH = (  # errors by which the system refuses a path that was given
    errno.EACCES,
    errno.EEXIST,
    errno.EINVAL,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
)


def show_version(asked: bool) -> None:
    """Print the version and leave, where it is asked for."""
    if asked:
        typer.echo(f"das-flows {version('das-flows')}")
        raise typer.Exit


class _Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        """Run a command; a value that its option does not take is refused in our words, not in pydantic's."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            if isinstance(error.__cause__, ValidationError):
                error.message = first_fault(error.__cause__)
            raise


app = typer.Typer(
    name="das",
    cls=_Commands,
    help="Disclosure avoidance for census tables: SafeTab-P, the TopDown Algorithm, and their privacy analyses.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _start(
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=show_version)
    ] = False,
) -> None: ...


def _add(group: typer.Typer, **commands: Callable[..., None]) -> None:
    """Add commands by their names."""
    for name, function in commands.items():
        group.command(name.replace("_", "-"))(with_options(function))


def _group(name: str, about: str, **commands: Callable[..., None]) -> None:
    """Add the commands `das NAME COMMAND`."""
    group = typer.Typer(help=about, no_args_is_help=True)
    _add(group, **commands)
    app.add_typer(group, name=name)


_add(
    app,
    demo=demo,
    validate=validate(DETAILED_DHCA),
    run=run(DETAILED_DHCA),
    show=show,
    check=check,
    tabulate=tabulate,
    truth=truth(DETAILED_DHCA),
    accuracy=accuracy.accuracy,
    synth=synth,
    spine=spine,
    compare=compare,
    tune=tune,
)


_group(
    "ledger",
    "Open budget accounts, show what was charged to them, and check, back up and restore the ledger.",
    open=ledger.open_account,
    show=ledger.show_ledger,
    check=ledger.check_ledger,
    backup=ledger.backup_ledger,
    restore=ledger.restore_ledger,
)
_group("runs", "List, show and discard runs.", list=runs.list_runs, show=runs.show_run, discard=runs.discard)
_group(
    "attribute-loss",
    "Per-attribute privacy semantics: the loss when some attributes of one person change.",
    s_dhc=attribute_loss.s_dhc,
    dhc_a=attribute_loss.dhc_a,
    dhc_b=attribute_loss.dhc_b,
    tda=attribute_loss.tda,
)
_group(
    "ddhcb",
    "The Detailed DHC-B: households by type and tenure, for detailed race and ethnicity groups (SafeTab-H).",
    validate=validate(DETAILED_DHCB),
    run=run(DETAILED_DHCB),
    truth=truth(DETAILED_DHCB),
    accuracy=accuracy.accuracy_ddhcb,
)
_group(
    "tda",
    "The TopDown Algorithm: a private database of persons and housing units by block, or any table that you declare.",
    synth=inputs.synth,
    public=inputs.public,
    declare=declared.declare,
    explain=declared.explain,
    validate=validate(TOP_DOWN),
    run=run(TOP_DOWN),
    inventory=published.inventory,
    **{"import": published.import_},
    estimate=published.estimate,
    areas=areas.areas,
    accuracy=tda_accuracy.accuracy,
    truth=truth(TOP_DOWN),
)
_group(
    "sdhc",
    "The Supplemental DHC: persons joined with their housing units, tables PH1 to PH8.",
    validate=validate(S_DHC),
    run=run(S_DHC),
    truth=truth(S_DHC),
    accuracy=accuracy.accuracy_s_dhc,
)
_group(
    "bottom-up",
    "The two-tailed geometric bottom-up mechanism (Clark, Dajani 2019).",
    run=run(BOTTOM_UP),
    example=bottom_up.example,
    noise=bottom_up.noise,
    curve=bottom_up.curve,
)


def main() -> None:
    """Run `das` and leave with 0 done, 1 refused, 2 usage, 3 failed and resumable; never with a traceback."""
    no_core_dumps()  # of persons and the run's secret
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a plain kill ends as Ctrl-C does, and leaves no file
    try:
        if word := next((word for word in sys.argv[1:] if word != word.encode(errors="ignore").decode()), None):
            raise Refused(f"{word!r} is not UTF-8 text: rename the file or folder")
        app(prog_name="das")
    except SystemExit as done:
        if done.code == INTERRUPTED:
            _print_error("stopped", Failed("interrupted"), 3)
        sys.exit(done.code)
    except Refused as refused:
        _print_error("refused", refused, 1)
    except Failed as failed:
        _print_error("stopped", failed, 3)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in OF_A_PATH:
            _print_error("refused", Refused(f"{error.filename or 'a path'}: {error.strerror}"), 1)
        _print_error("stopped", report_crash(error), 3)


def _print_error(word: str, error: Exception, code: int) -> None:
    err.print(labelled(f"{word}:", str(error)), soft_wrap=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
