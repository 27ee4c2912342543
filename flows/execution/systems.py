"""The systems that das runs, one record for each. Code that goes through all systems does so here.

From a record follow its commands (flows/commands/systems.py), its flow (flows/prefect_flows.py), its policy and its
deployments. A record names its parts as `module:name` and imports each on first use, so that `das check` needs no
Prefect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any

from tasks.records.marks import DataFiles


@dataclass(frozen=True, kw_only=True)
class ReleaseKind:
    """The facts about all releases with one title.

    title: `release` in their manifests.
    description: returns the Description of a release's tables, given its manifest.
    statements: returns what a release must state besides `tasks.releases.statements.common`, for `das check`.
    release_checks: yields the checks of its own for `das check`, if any.
    page: opens a release for `das show`; by default the pages of its tables.
    published: returns the numbers of published groups as a table, given its manifest, if they depend on the noise.
    """

    title: str
    description: str
    statements: str = ""
    release_checks: str = ""
    page: str = "flows.reports.show.release_pages:ReleasePages"
    published: str = ""

    def part(self, name: str) -> Any:
        """Return the object that a field names, such as `description` or `page`."""
        return resolve_name(getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class System(ReleaseKind):
    """A system, as the rest of the program sees it.

    name: its name as a flow in Prefect, in `das runs` and in the settings of a run.
    command: the command that starts a run, and resumes it.
    settings_class: a subclass of RunSettings.
    stages: its stages, in order, as a function of a runner. at_once: how many of them can run at once.
    check: refuses settings before the stages start, if more than their spend and account can be checked; returns False
    for a part that is switched off.
    flow: its Prefect flow.
    data_files: the DataFiles of a folder of inputs, for `das synth --mark`, if the system reads one.
    commands: which of `validate`, `run`, `truth` and `accuracy` it has. group: the help above them, if they are
    `das NAME …`.
    about: the first sentence of the help of `run`, and more about this system. example: an example of it. words: the
    input in the other examples. inputs: the settings that name the input and choose a part of it. exact: the settings
    that shape exact tables too. accuracy: a command of its own that measures its errors.
    modules: modules for workers to import ahead, by the setting that needs them; "" for all runs.
    """

    name: str
    command: str
    settings_class: str
    stages: str
    at_once: int = 1
    check: str = ""
    flow: str = ""
    data_files: str = ""
    commands: tuple[str, ...] = ("validate", "run", "truth", "accuracy")
    group: str = ""
    about: str = ""
    example: str = ""
    words: str = ""
    inputs: tuple[str, ...] = ()
    exact: tuple[str, ...] = ()
    accuracy: str = ""
    modules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.flow:
            object.__setattr__(self, "flow", f"flows.prefect_flows:{self.name.replace('-', '_')}")


SYSTEMS = {
    system.name: system
    for system in (
        System(
            name="detailed-dhca",
            title="Detailed DHC-A by SafeTab-P",
            command="das run",
            settings_class="flows.execution.safetab_settings:DetailedDhcaSettings",
            stages="flows.detailed_dhca:stages",
            check="flows.execution.safetab:check",
            description="tasks.safetab.persons.tables:description",
            statements="tasks.safetab.persons.check:statements",
            release_checks="tasks.safetab.persons.check:checks",
            data_files="tasks.safetab.persons.person:DATA_FILES",
            page="flows.reports.show.detailed_dhca:DetailedDhcaPages",
            published="tasks.safetab.persons.manifest:groups_published",
            at_once=4,
            about="""Run SafeTab-P over the jurisdictions that config.json asks for, and release their tables.

All are validated, then charged in one act: if one jurisdiction is refused, none is charged or released.""",
            example="`das ledger open census-2020 --definition zcdp --total 4.944`, then\n"
            "`das run params/ data/ out/ --account census-2020`",
            words="params/ data/",
            inputs=("params", "data"),
            exact=("coterminous",),
            accuracy="flows.commands.accuracy:accuracy",
            modules={
                "": ("tasks.safetab.count", "tasks.safetab.persons.release"),
                "spine": ("tasks.spine.first_pass", "tasks.spine.report"),
            },
        ),
        System(
            name="detailed-dhcb",
            title="Detailed DHC-B by SafeTab-H",
            command="das ddhcb run",
            settings_class="flows.execution.safetab_settings:DetailedDhcbSettings",
            stages="flows.detailed_dhcb:stages",
            check="flows.execution.safetab:check",
            description="tasks.safetab.households.tables:description",
            statements="tasks.safetab.households.check:statements",
            release_checks="tasks.safetab.households.check:checks",
            data_files="tasks.safetab.households.household:DATA_FILES",
            page="flows.reports.show.detailed_dhcb:DetailedDhcbPages",
            published="tasks.safetab.households.manifest:groups_published",
            at_once=4,
            group="The Detailed DHC-B: households by type and tenure, for detailed race and ethnicity groups "
            "(SafeTab-H).",
            about="""Run SafeTab-H over the jurisdictions that config.json asks for: households by type and by tenure.

The groups and the detail of their tables come from published totals of the Detailed DHC-A: --totals names its release,
or DATA holds pop-group-totals.txt. The unit of privacy is a household, so the account is of households.""",
            example="`das ledger open households-2020 --unit household --definition zcdp --total 8.895302`, then\n"
            "`das ddhcb run params/ data/ out/ --totals dhc-a/ --account households-2020`",
            words="params/ data/ --totals dhc-a/",
            inputs=("params", "data", "totals"),
            exact=("coterminous",),
            modules={"": ("tasks.safetab.count", "tasks.safetab.households.release")},
        ),
        System(
            name="top-down",
            title="Redistricting data by the TopDown Algorithm",
            command="das tda run",
            settings_class="flows.execution.top_down_settings:TopDownSettings",
            stages="flows.top_down:stages",
            check="flows.top_down:check",
            description="tasks.top_down.release.tables:description",
            statements="tasks.top_down.check.redistricting:statements",
            release_checks="tasks.top_down.check.redistricting:checks",
            data_files="tasks.top_down.run_plan:DATA_FILES",
            page="flows.reports.show.top_down:TopDownPages",
            at_once=2,
            group="The TopDown Algorithm: a private database of persons and housing units by block, or any table that "
            "you declare.",
            about="""\
Release persons and housing units by block or, with --declaration, a table of any records and places.

Of blocks, OUT gets microdata, histograms of every geounit, the noisy measurements with their variances, manifest.json
and report.html. Persons and units are charged together. The declared state totals, housing units and group quarters by
block are published unchanged.

With --declaration, DATA is a table of any records, and OUT gets histograms by the levels and axes of that file.""",
            example="`das tda run ri/ out/ --spine conventional --only-state 44 --mdf-text`\n\n"
            "**Example:** `das tda run records.csv out/ --declaration districts.toml --account census-2024`",
            words="data/",
            inputs=("data", "geography", "quarters", "state_totals", "jurisdiction", "states", "products"),
            exact=("spine", "microdata"),
            accuracy="flows.commands.tda.accuracy:accuracy",
            modules={
                "": (
                    "scipy.sparse",
                    "spine.compiled",
                    "tasks.top_down.input.block_run",
                    "tasks.top_down.release.stage_release",
                ),
                "declaration": ("tasks.top_down.declared.release",),
            },
        ),
        System(
            name="bottom-up",
            title="Bottom-up histogram by the two-tailed geometric mechanism",
            command="das bottom-up run",
            settings_class="flows.execution.bottom_up_settings:BottomUpSettings",
            stages="flows.bottom_up:stages",
            check="flows.bottom_up:check",
            description="tasks.bottom_up.release_tables:description",
            statements="tasks.bottom_up.check:statements",
            release_checks="tasks.bottom_up.check:checks",
            commands=("run",),
            group="The two-tailed geometric bottom-up mechanism (Clark, Dajani 2019).",
            about="Release a noisy histogram and its marginals. One epsilon pays for all cells; marginals are their "
            "sums.",
            example="`das bottom-up run table.parquet declaration.toml out/ --epsilon 1/2 --account long-form-1960`",
            words="table.parquet declaration.toml",
            inputs=("table", "declaration"),
            modules={"": ("tasks.bottom_up.release",)},
        ),
        System(
            name="declared",
            title="Tables of a declaration by the TopDown Algorithm",
            command="das tda run",
            settings_class="flows.execution.top_down_settings:DeclaredSettings",
            stages="flows.top_down:stages",
            check="flows.top_down:check_declared",
            description="tasks.top_down.declared.tables:description",
            statements="tasks.top_down.check.declaration:statements",
            release_checks="tasks.top_down.check.declaration:checks",
            at_once=2,
            commands=(),  # `das tda` with --declaration
        ),
        System(
            name="s-dhc",
            title="Supplemental DHC by PHSafe",
            command="das sdhc run",
            settings_class="flows.execution.s_dhc_settings:SDhcSettings",
            stages="flows.s_dhc:stages",
            description="tasks.s_dhc.release_tables:description",
            statements="tasks.s_dhc.check:statements",
            release_checks="tasks.s_dhc.check:checks",
            data_files="tasks.s_dhc.records:DATA_FILES",
            group="The Supplemental DHC: persons joined with their housing units, tables PH1 to PH8.",
            about="""Release tables PH1 to PH8 of the Supplemental DHC: persons in households, with noise in every cell.

The states are those of CONFIG: some of the US, or Puerto Rico. The whole budget is charged at once.""",
            example="`das sdhc run config.json data/ out/ --estimates --account census-2020`",
            words="config.json data/",
            inputs=("config", "data"),
            exact=("truncated",),
            accuracy="flows.commands.accuracy:accuracy_s_dhc",
            modules={"": ("tasks.s_dhc.tabulate", "tasks.s_dhc.release")},
        ),
    )
}


def all_data_files() -> list[DataFiles]:
    """Return the data files of every system that reads a folder."""
    return [resolve_name(system.data_files) for system in SYSTEMS.values() if system.data_files]


TABULATED = ReleaseKind(  # `das tabulate`
    title="Detailed DHC-A by SafeTab-P, as a tabulation system would publish it",
    description="tasks.safetab.persons.tabulate:description",
    page="flows.reports.show.detailed_dhca:TabulatedPages",
)


def kind_of_release(title: str) -> ReleaseKind | None:
    """Return the kind of releases whose manifests have this title, or None for an unknown title."""
    return next((kind for kind in (*SYSTEMS.values(), TABULATED) if kind.title == title), None)
