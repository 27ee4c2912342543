"""`das … validate`, `run` and `truth`: the same commands for every system, made from the settings of its runs."""

# Annotations are evaluated here, not kept as text: a command's options are those of its system.

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.fields import Settings, Values
from flows.commands.options import Curator, ExactOptions, RunOptions, WorkOptions
from flows.commands.runner import planned_run, run_flow
from flows.commands.tda.declared import refuse_others
from flows.execution.bottom_up_settings import BottomUpSettings
from flows.execution.s_dhc_settings import SDhcSettings
from flows.execution.safetab_settings import DetailedDhcaSettings, DetailedDhcbSettings
from flows.execution.settings import RunSettings
from flows.execution.systems import SYSTEMS
from flows.execution.top_down_settings import DeclaredSettings, TopDownSettings
from flows.reports.curator import findings_data, findings_table
from flows.reports.terminal import err, labelled, out, show
from tasks.errors import Refused
from tasks.lifecycle.new_folder import check_empty
from tasks.records.findings import REPORT, NotValid, has_errors, load_findings

Command = Callable[..., None]

RUN = """{about}

What a run will spend is shown before any noise is drawn. If a run stops, `{run} --resume ID` continues it without
spending again; its id is printed at the start. With --resume, only these options are allowed: --runs-folder, --ledger,
--json, and, to continue on another cluster, --workers, --memory-limit, --scheduler, its certificates and --patience.

**Example:** {example}"""
VALIDATE = """Check every row of every file of a run's input; exit with 1 if a run would be refused.

The findings are shown without the values that broke a rule. The report with the values stays in the confidential
directory that is named below the table.

**Example:** `{validate} {words}`"""
TRUTH = """Write the release that a run would give with its noise switched off. NOT PRIVATE: only its owner may read it.

If the command is killed, `das runs discard ID` removes what it had written.

**Example:** `{truth} {words} truth/`"""


@dataclass(frozen=True)
class SystemCommands:
    """The differences between the commands of systems.

    about: the first sentence of the help of `run`, and more about this system. example: an example of it. words: the
    input in the other examples. inputs: the settings that name the input and choose a part of it. exact: the settings
    that shape exact tables too. modules: modules for workers to import ahead, by the setting that needs them; "" for
    all runs.
    """

    settings: type[RunSettings]
    about: str
    example: str
    words: str
    inputs: tuple[str, ...]
    exact: tuple[str, ...]
    modules: dict[str, tuple[str, ...]]

    @property
    def declaration(self) -> tuple[str, ...]:
        """The setting that makes the commands run a declaration instead, if any."""
        return ("declaration",) if self.settings is TopDownSettings else ()

    def help(self, text: str) -> str:
        """Return the help of a command."""
        run = SYSTEMS[self.settings.SYSTEM].command
        names = {name: f"{run.removesuffix('run')}{name}" for name in ("validate", "truth")}
        return text.format(run=run, about=self.about, example=self.example, words=self.words, **names)

    def choose(self, context: typer.Context, chosen: Values, declared: Values) -> tuple[type[RunSettings], Values]:
        """Return the class of the settings, and the typed settings for it."""
        if not declared:
            return self.settings, chosen
        refuse_others(context)
        shared = {name: chosen[name] for name in ("data", "out", "estimator") if name in chosen}
        return DeclaredSettings, shared | declared


def run(of: SystemCommands) -> Command:
    """Return the command that runs a system."""

    def command(
        context: typer.Context,
        chosen: Annotated[Values, Settings(of.settings, needed=False)],
        declared: Annotated[Values, Settings(DeclaredSettings, of.declaration, needed=False)],
        *,
        options: RunOptions,
    ) -> None:
        asked = {**chosen, **declared, "": True}
        options.start_ahead(*(name for setting, names in of.modules.items() if asked.get(setting) for name in names))
        run_flow(context, options, *of.choose(context, chosen, declared))

    command.__doc__ = of.help(RUN)
    return command


def validate(of: SystemCommands) -> Command:
    """Return the command that checks the input of a system's run without spending anything."""

    def command(
        context: typer.Context,
        chosen: Annotated[Values, Settings(of.settings, of.inputs)],
        declared: Annotated[Values, Settings(DeclaredSettings, of.declaration, needed=False)],
        *,
        options: WorkOptions,
    ) -> None:
        validate_input(options, *of.choose(context, chosen, declared))

    command.__doc__ = of.help(VALIDATE)
    return command


def truth(of: SystemCommands) -> Command:
    """Return the command that writes the exact tables of a system's run."""

    def command(
        context: typer.Context,
        chosen: Annotated[Values, Settings(of.settings, (*of.inputs, "out", *of.exact), instead=of.settings.OF_TRUTH)],
        declared: Annotated[Values, Settings(DeclaredSettings, of.declaration, needed=False)],
        curator: Curator = False,
        *,
        options: ExactOptions,
    ) -> None:
        release_truths(options, *of.choose(context, chosen, declared), curator=curator)

    command.__doc__ = of.help(TRUTH)
    return command


def validate_input(options: WorkOptions, kind: type[RunSettings], chosen: Values) -> None:
    """Run the stages that validate an input, and show the findings. Raises Refused if it does not pass."""
    from flows.execution.runner import InProcess
    from tasks.lifecycle.commit import end_run

    findings, reports = [], []
    try:
        parts = kind.new_run(kind.new_id("validate"), {**chosen, **options.shared_settings(), "out": "."}).parts
    except NotValid as refused:
        parts, findings = (), [*refused.findings]
    for settings in parts:
        run, refusal = settings.directory, None
        name = settings.folder.upper()
        try:
            with options.working(f"Validating {name}", run) as workers:
                runner = InProcess(settings, workers, before=settings.VALIDATED)
                runner.run()
                if runner.results.get("validate", run) is None:
                    err.print(f"{name} has no block in GRF-C: a run would skip it", style="yellow")
        except Refused as error:
            refusal = error
        found = load_findings(run)
        findings += found
        if has_errors(found):
            reports.append(run.path)
            continue
        end_run(run)
        if refusal:
            raise refusal
    findings = list(dict.fromkeys(findings))  # both jurisdictions read the same parameter files
    show(
        {"valid": not has_errors(findings), "findings": findings_data(findings), "reports": reports},
        lambda: findings_table(findings) if findings else "No findings.",
        as_json=options.as_json,
    )
    if not options.as_json and reports:
        out.print("The values are in the curator's report:", *(f"  {path}/{REPORT}" for path in reports), sep="\n")
    if has_errors(findings):
        raise Refused("the input does not pass validation")


def release_truths(options: ExactOptions, kind: type[RunSettings], chosen: Values, *, curator: bool) -> None:
    """Release the exact tables of each part of a run, and show their places."""
    from flows.execution.runner import release_truth

    check_empty(Path(chosen["out"]))
    made = {}
    for settings in planned_run(options, kind, kind.new_id("truth"), {**kind.OF_TRUTH, **chosen}).parts:
        with options.leaving_nothing(f"Truth of {settings.folder.upper()}", settings.directory) as workers:
            made[settings.folder] = release_truth(settings, workers, curator=curator)
    err.print(labelled("NOT PRIVATE:", "these are exact counts. Never publish them."))
    show(
        {"NOT_PRIVATE": True, "releases": made},
        lambda: "\n".join(f"{name.upper()}: {place or 'skipped, no block'}" for name, place in made.items()),
        as_json=options.as_json,
    )


DETAILED_DHCA = SystemCommands(
    settings=DetailedDhcaSettings,
    about="""Run SafeTab-P over the jurisdictions that config.json asks for, and release their tables.

All are validated, then charged in one act: if one jurisdiction is refused, none is charged or released.""",
    example="`das ledger open census-2020 --definition zcdp --total 4.944`, then\n"
    "`das run params/ data/ out/ --account census-2020`",
    words="params/ data/",
    inputs=("params", "data"),
    exact=("coterminous",),
    modules={
        "": ("tasks.safetab.count", "tasks.safetab.persons.release"),
        "spine": ("tasks.spine.first_pass", "tasks.spine.report"),
    },
)
DETAILED_DHCB = SystemCommands(
    settings=DetailedDhcbSettings,
    about="""Run SafeTab-H over the jurisdictions that config.json asks for: households by type and by tenure.

The groups and the detail of their tables come from published totals of the Detailed DHC-A: --totals names its release,
or DATA holds pop-group-totals.txt. The unit of privacy is a household, so the account is of households.""",
    example="`das ledger open households-2020 --unit household --definition zcdp --total 8.895302`, then\n"
    "`das ddhcb run params/ data/ out/ --totals dhc-a/ --account households-2020`",
    words="params/ data/ --totals dhc-a/",
    inputs=("params", "data", "totals"),
    exact=("coterminous",),
    modules={"": ("tasks.safetab.count", "tasks.safetab.households.release")},
)
TOP_DOWN = SystemCommands(
    settings=TopDownSettings,
    about="""Release persons and housing units by block or, with --declaration, a table of any records and places.

Of blocks, OUT gets microdata, histograms of every geounit, the noisy measurements with their variances, manifest.json
and report.html. Persons and units are charged together. The declared state totals, housing units and group quarters by
block are published unchanged.

With --declaration, DATA is a table of any records, and OUT gets histograms by the levels and axes of that file.""",
    example="`das tda run ri/ out/ --spine conventional --only-state 44 --mdf-text`\n\n"
    "**Example:** `das tda run records.csv out/ --declaration districts.toml --account census-2024`",
    words="data/",
    inputs=("data", "geography", "quarters", "state_totals", "jurisdiction", "states", "products"),
    exact=("spine", "microdata"),
    modules={
        "": ("scipy.sparse", "tasks.top_down.input.block_run", "tasks.top_down.release.stage_release"),
        "declaration": ("tasks.top_down.declared.release",),
    },
)
S_DHC = SystemCommands(
    settings=SDhcSettings,
    about="""Release tables PH1 to PH8 of the Supplemental DHC: persons in households, with noise in every cell.

The states are those of CONFIG: some of the US, or Puerto Rico. The whole budget is charged at once.""",
    example="`das sdhc run config.json data/ out/ --estimates --account census-2020`",
    words="config.json data/",
    inputs=("config", "data"),
    exact=("truncated",),
    modules={"": ("tasks.s_dhc.tabulate", "tasks.s_dhc.release")},
)
BOTTOM_UP = SystemCommands(
    settings=BottomUpSettings,
    about="""Release a noisy histogram and its marginals. One epsilon pays for all cells; marginals are their sums.""",
    example="`das bottom-up run table.parquet declaration.toml out/ --epsilon 1/2 --account long-form-1960`",
    words="table.parquet declaration.toml",
    inputs=("table", "declaration"),
    exact=(),
    modules={"": ("tasks.bottom_up.release",)},
)
COMMANDS = (DETAILED_DHCA, DETAILED_DHCB, TOP_DOWN, S_DHC, BOTTOM_UP)
