"""The settings of a geographic spine, for the flow and for the command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from flows.execution.option import argument, option
from flows.execution.settings import ClusterSettings, Location
from spine.settings import Definition, Jurisdiction, Variant

if TYPE_CHECKING:
    from tasks.spine.prepare import Prepared


def _changes(texts: list[str]) -> dict[str, str]:
    """Return settings by name from texts NAME=VALUE. Raises ValueError."""
    if wrong := [text for text in texts if "=" not in text]:
        raise ValueError(f"--set {wrong[0]}: write NAME=VALUE")
    return {name.strip(): value.strip() for name, _, value in (text.partition("=") for text in texts)}


def _cluster(workers: int) -> ClusterSettings | None:
    return ClusterSettings(workers=workers) if workers else None


class SpineRun(BaseModel):
    """The inputs, outputs and options of one spine."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    geography: Location = argument(
        "GEOGRAPHY", "ri2020.pl.zip, ??geo2020.pl, BlockAssign_….zip, GRF-C.txt or a CSV; or a directory of them."
    )
    out: Location = argument(
        "OUT", "The directory to make; in a flow, {run} in it stands for the id of its run.", typed=Path
    )
    product: Literal["pl94-persons", "pl94-units", "dhc-persons", "dhc-units"] = option(
        "pl94-persons", "The production run whose levels, OSEs and budget to take.", "--settings"
    )
    jurisdiction: Jurisdiction = option("us", "US or Puerto Rico.")
    variant: Variant = option("production", "Whose choice, where paper and production program differ.")
    changes: dict[str, str] = option(
        dict, "Change one setting; may be repeated.", "--set", typed=list[str], read=_changes, metavar="NAME=VALUE"
    )
    allocation: str | None = option(None, "JSON file of budget and shares; the production run's by default.")
    definition: Definition = option("zcdp", "Which bypasses gain; puredp has no production budget: give one.")
    budget: str | None = option(None, "Another rho (puredp: epsilon), an exact fraction.")
    states: tuple[int, ...] = option((), "Only this state, by FIPS code; may be repeated.", "--only-state")
    marginals: tuple[str, ...] = option((), "Report standard errors of its cells, as `hispanic*cenrace`.", "--marginal")
    extra: Location | None = option(None, "CSV by block: tabblk, primgeo, gq1..gq7 (facilities), hu, pop.")
    cluster: ClusterSettings | None = option(
        None, "Dask workers on this machine, by state; none by default.", "--workers", typed=int, read=_cluster, min=0
    )

    def prepared(self, folder: Path) -> Prepared:
        """Read and check the blocks, and store them by state in the folder for the spine. Raises Refused."""
        from tasks.geography.spine_options import read_allocation, read_settings
        from tasks.spine.prepare import prepare

        changes = {"definition": self.definition} | self.changes
        settings = read_settings(self.product, self.jurisdiction, self.variant, changes)
        return prepare(
            self.geography,
            folder,
            settings,
            allocation=read_allocation(self.allocation, self.budget, settings),
            states=self.states,
            marginals=self.marginals,
            extra=self.extra,
        )
