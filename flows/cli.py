"""`das`: the command line. Each subcommand, or group of small ones, is a file of flows/commands."""

from __future__ import annotations

import errno
import signal
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from typer.core import TyperGroup

from flows.commands import attribute_loss, bottom_up, census, ledger, runs
from flows.commands.check import check
from flows.commands.compare import compare
from flows.commands.demo import demo
from flows.commands.deployment import deployment
from flows.commands.fields import with_options
from flows.commands.show import show
from flows.commands.spine import spine
from flows.commands.synth import synth
from flows.commands.systems import commands_of
from flows.commands.tabulate import tabulate
from flows.commands.tda import areas, declared, inputs, published
from flows.commands.tda import tune as tda_tune
from flows.commands.tune import tune
from flows.execution.crash_report import report_crash
from flows.execution.systems import SYSTEMS, System
from flows.reports.terminal import err, labelled
from spine.fault_words import first_fault
from tasks.errors import Failed, Refused
from tasks.lifecycle.process import no_core_dumps

INTERRUPTED = 130  # typer's exit code after Ctrl-C
PATH_ERRORS = (  # errors by which the system refuses a given path
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
OF_DHC = (
    "The DHC's persons, units and households are declarations: das tda declare writes them, --declaration takes one."
)
RELEASE, LOOK, DECIDE, OPERATE, ANALYSE = "Release", "Look", "Decide", "Operate", "Analyse"  # panels of commands


def show_version(asked: bool) -> None:
    """Print the version and exit, if `--version` was given."""
    if asked:
        typer.echo(f"das-flows {version('das-flows')}")
        raise typer.Exit


class _Commands(TyperGroup):
    def list_commands(self, _ctx: Any) -> list[str]:
        """Return the names of the commands in the order of help, panel by panel."""
        commands: Mapping[str, Any] = self.commands  # each with the panel that typer adds
        panels = (RELEASE, LOOK, DECIDE, OPERATE, ANALYSE)
        return sorted(commands, key=lambda name: panels.index(commands[name].rich_help_panel))

    def invoke(self, ctx: Any) -> Any:
        """Run a command; rewrite the errors of its options in plain words."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            if isinstance(error.__cause__, ValidationError):  # pydantic refused the value
                error.message = first_fault(error.__cause__)
            if error.param and "--product" in error.param.opts and "'dhc-" in error.message:
                error.message += f" {OF_DHC}"
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


def _add(group: typer.Typer, panel: str | None = None, /, **commands: Callable[..., None]) -> None:
    """Add commands by their names. panel: the heading in the help above them."""
    for name, function in commands.items():
        group.command(name.replace("_", "-"), rich_help_panel=panel)(with_options(function))


def _group(name: str, panel: str, about: str, **commands: Callable[..., None]) -> None:
    """Add the commands `das NAME COMMAND`."""
    group = typer.Typer(help=about, no_args_is_help=True)
    _add(group, **commands)
    app.add_typer(group, name=name, rich_help_panel=panel)


def add_system(system: System, **more: Callable[..., None]) -> None:
    """Add the commands `das NAME COMMAND` of a system, if it has such a group. more: besides those of its record."""
    if system.group:
        _group(system.command.split()[1], RELEASE, system.group, **commands_of(system), **more)


own = commands_of(SYSTEMS["detailed-dhca"])
_add(app, RELEASE, demo=demo, synth=synth, validate=own["validate"], run=own["run"])
_add(app, LOOK, show=show, check=check, tabulate=tabulate)
_add(app, DECIDE, tune=tune, compare=compare, accuracy=own["accuracy"])
_add(app, ANALYSE, truth=own["truth"], spine=spine)
_group(
    "ledger",
    OPERATE,
    "Open budget accounts, show what was charged to them, and check, back up and restore the ledger.",
    open=ledger.open_account,
    show=ledger.show_ledger,
    check=ledger.check_ledger,
    backup=ledger.backup_ledger,
    restore=ledger.restore_ledger,
)
_add(app, OPERATE, deployment=deployment)
_group("runs", OPERATE, "List, show and discard runs.", list=runs.list_runs, show=runs.show_run, discard=runs.discard)
_group(
    "attribute-loss",
    ANALYSE,
    "Per-attribute privacy semantics: the loss when some attributes of one person change.",
    s_dhc=attribute_loss.s_dhc,
    dhc_a=attribute_loss.dhc_a,
    dhc_b=attribute_loss.dhc_b,
    tda=attribute_loss.tda,
)
_group(
    "census",
    RELEASE,
    "Several products from one plan: what they charge and lose together, and all of their releases.",
    plan=census.plan,
    run=census.run,
)
MORE: dict[str, dict[str, Callable[..., None]]] = {
    "top-down": {
        "synth": inputs.synth,
        "public": inputs.public,
        "declare": declared.declare,
        "explain": declared.explain,
        "inventory": published.inventory,
        "import": published.import_,
        "estimate": published.estimate,
        "areas": areas.areas,
        "tune": tda_tune.tune,
    },
    "bottom-up": {"example": bottom_up.example, "noise": bottom_up.noise, "curve": bottom_up.curve},
}
for system in SYSTEMS.values():
    add_system(system, **MORE.get(system.name, {}))


def main() -> None:
    """Run `das` and exit with 0 done, 1 refused, 2 usage, 3 failed and resumable; never with a traceback."""
    no_core_dumps()  # they would hold persons and the run's secret
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a plain kill ends like Ctrl-C, without leaving files
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
        if isinstance(error, OSError) and error.errno in PATH_ERRORS:
            _print_error("refused", Refused(f"{error.filename or 'a path'}: {error.strerror}"), 1)
        _print_error("stopped", report_crash(error), 3)


def _print_error(word: str, error: Exception, code: int) -> None:
    err.print(labelled(f"{word}:", str(error)), soft_wrap=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
