"""The systems that das runs, one record for each. Code that goes through all systems does so here.

Their commands are made in flows/commands/systems.py, their flows in flows/prefect_flows.py. A record names its parts as
`module:name` and imports each on first use, so that `das check` needs no Prefect.
"""

from __future__ import annotations

from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    flow, stages, check: the Prefect flow; its stages, in order, as a function of a runner; a function that refuses
    settings before the stages start.
    data_files: the DataFiles of a folder of inputs, for `das synth --mark`, if the system reads one.
    """

    name: str
    command: str
    settings_class: str
    flow: str
    stages: str
    check: str
    data_files: str = ""


SYSTEMS = {
    system.name: system
    for system in (
        System(
            name="detailed-dhca",
            title="Detailed DHC-A by SafeTab-P",
            command="das run",
            settings_class="flows.execution.safetab_settings:DetailedDhcaSettings",
            flow="flows.prefect_flows:detailed_dhca",
            stages="flows.detailed_dhca:stages",
            check="flows.execution.safetab:check",
            description="tasks.safetab.persons.tables:description",
            statements="tasks.safetab.persons.check:statements",
            release_checks="tasks.safetab.persons.check:checks",
            data_files="tasks.safetab.persons.person:DATA_FILES",
            page="flows.reports.show.detailed_dhca:DetailedDhcaPages",
            published="tasks.safetab.persons.manifest:groups_published",
        ),
        System(
            name="detailed-dhcb",
            title="Detailed DHC-B by SafeTab-H",
            command="das ddhcb run",
            settings_class="flows.execution.safetab_settings:DetailedDhcbSettings",
            flow="flows.prefect_flows:detailed_dhcb",
            stages="flows.detailed_dhcb:stages",
            check="flows.execution.safetab:check",
            description="tasks.safetab.households.tables:description",
            statements="tasks.safetab.households.check:statements",
            release_checks="tasks.safetab.households.check:checks",
            data_files="tasks.safetab.households.household:DATA_FILES",
            page="flows.reports.show.detailed_dhcb:DetailedDhcbPages",
            published="tasks.safetab.households.manifest:groups_published",
        ),
        System(
            name="top-down",
            title="Redistricting data by the TopDown Algorithm",
            command="das tda run",
            settings_class="flows.execution.top_down_settings:TopDownSettings",
            flow="flows.prefect_flows:top_down",
            stages="flows.top_down:stages",
            check="flows.top_down:check",
            description="tasks.top_down.release.tables:description",
            statements="tasks.top_down.check.redistricting:statements",
            release_checks="tasks.top_down.check.redistricting:checks",
            data_files="tasks.top_down.run_plan:DATA_FILES",
            page="flows.reports.show.top_down:TopDownPages",
        ),
        System(
            name="bottom-up",
            title="Bottom-up histogram by the two-tailed geometric mechanism",
            command="das bottom-up run",
            settings_class="flows.execution.bottom_up_settings:BottomUpSettings",
            flow="flows.prefect_flows:bottom_up",
            stages="flows.bottom_up:stages",
            check="flows.bottom_up:check",
            description="tasks.bottom_up.release_tables:description",
            statements="tasks.bottom_up.check:statements",
            release_checks="tasks.bottom_up.check:checks",
        ),
        System(
            name="declared",
            title="Tables of a declaration by the TopDown Algorithm",
            command="das tda run",
            settings_class="flows.execution.top_down_settings:DeclaredSettings",
            flow="flows.prefect_flows:declared",
            stages="flows.top_down:stages",
            check="flows.top_down:check_declared",
            description="tasks.top_down.declared.tables:description",
            statements="tasks.top_down.check.declaration:statements",
            release_checks="tasks.top_down.check.declaration:checks",
        ),
        System(
            name="s-dhc",
            title="Supplemental DHC by PHSafe",
            command="das sdhc run",
            settings_class="flows.execution.s_dhc_settings:SDhcSettings",
            flow="flows.prefect_flows:s_dhc",
            stages="flows.s_dhc:stages",
            check="flows.s_dhc:check",
            description="tasks.s_dhc.release_tables:description",
            statements="tasks.s_dhc.check:statements",
            release_checks="tasks.s_dhc.check:checks",
            data_files="tasks.s_dhc.records:DATA_FILES",
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
