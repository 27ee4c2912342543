"""The settings of a run of a SafeTab: the common ones, and those of each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_args

from pydantic import Field

from flows.execution.option import argument, option
from flows.execution.settings import Location, RunSettings, load_settings, run_directory
from privacy.accounting.composition import Spend
from spine.settings import Jurisdiction
from tasks.errors import Refused
from tasks.lifecycle.commit import holds_other
from tasks.records.files import digest_file, exists, refuse_unreadable
from tasks.records.findings import NotValid, gather, has_errors
from tasks.records.marks import GRF_FILE

if TYPE_CHECKING:
    from tasks.safetab.run import PublicInput, SafeTabRun


class SafeTabSettings(RunSettings):
    """The inputs, outputs and options of one run of a SafeTab. It releases the US, Puerto Rico, or both.

    RUN: the class of its run directories, as `module:name`.
    """

    RUN: ClassVar[str]
    MAY_CHANGE = RunSettings.MAY_CHANGE | {"blocks_each", "both"}
    VALIDATED = "population groups"
    SEVERAL = True

    params: Location = argument("PARAMS", "Parameters directory (path or URL): config.json, four iteration files.")
    data: Location = argument("DATA", "Data directory (path or URL): records (.txt or .parquet) and GRF-C.txt.")
    jurisdiction: Jurisdiction = Field(description="us or pr: the release goes to OUT/us or OUT/pr.")
    both: bool = Field(
        default=False, description="Release the US and Puerto Rico, whichever is named: both are charged or none."
    )
    coterminous: bool = option(True, "Equate coterminous geographies (Algorithm 4).")
    coterminous_list: Location | None = option(None, "Further coterminous sets, a table: SET|REGION_TYPE|REGION_ID.")
    blocks_each: int | None = Field(default=None, ge=1, description="Blocks in a partition; no effect on results.")

    @classmethod
    def new_run(cls, run_id: str, values: Mapping[str, Any]) -> Self:
        """Return the settings of a run over the jurisdictions in config.json; its id ends with the first one's name.

        Raises NotValid if the parameters have errors, together with errors that can be found in the data alone.
        """
        from tasks.safetab.parameters import read_parameters
        from tasks.safetab.validation import check_data_alone

        run, params, data = cls.run_class(), values["params"], values["data"]
        parameters, findings = read_parameters(params, run.CONFIGURATION)
        if parameters is None:
            why = f"the parameters in {params} do not pass validation"
            raise NotValid(why, gather(findings + check_data_alone(run.KIND, data)))
        first, *others = parameters.configuration.jurisdictions
        return cls.new(**values, jurisdiction=first, both=bool(others), run_id=f"{run_id}-{first}")

    @property
    def parts(self) -> tuple[Self, ...]:
        """The settings of each jurisdiction; if both are released, the run id ends with the jurisdiction's name."""
        if not self.both:
            return (self,)
        base = str(self.run_id).removesuffix(f"-{self.jurisdiction}")
        return tuple(
            self.model_copy(update={"jurisdiction": name, "run_id": f"{base}-{name}"})
            for name in get_args(Jurisdiction)
        )

    def without_ended(self) -> Self:
        """Return the settings of a run that is resumed, without the other jurisdiction if that has ended."""
        for part in self.parts:
            kept = load_settings(part.directory)
            if kept is None or kept.SYSTEM != part.SYSTEM or part.differ_from(kept):
                return self.model_copy(update={"both": False})
        return self

    def spends(self) -> dict[str, Spend]:
        """Return the spend of the run, by the name of its release."""
        from tasks.safetab.parameters import planned_spend, read_configuration

        configuration, _ = read_configuration(self.params, self.run_class().CONFIGURATION)
        if configuration is None:
            raise Refused(f"{self.params} changed while it was read")
        return {self.folder.upper(): planned_spend(configuration, self.jurisdiction)}

    def geography_read(self) -> str:
        """Return the number of blocks of the jurisdiction, and their file."""
        return f"{len(self.directory.geography.blocks):,} blocks of {self.data.rstrip('/')}/{GRF_FILE}"

    def charged_states(self) -> tuple[str, ...]:
        """Return the states that the run charges."""
        from tasks.safetab.parameters import read_configuration

        configuration, _ = read_configuration(self.params, self.run_class().CONFIGURATION)
        return configuration.states(self.jurisdiction) if configuration else ()

    def check_out(self) -> None:
        """Raise Refused for an output folder that holds anything except the releases of this command."""
        out, base = Path(self.out), str(self.run_id).removesuffix(self.jurisdiction)
        runs = {name: run_directory(Path(self.runs_folder), f"{base}{name}") for name in get_args(Jurisdiction)}
        if out.exists() and (not out.is_dir() or holds_other(out, runs)):
            raise Refused(f"{out} is not empty: choose an empty or a new folder")
        super().check_out()

    @property
    def directory(self) -> SafeTabRun:
        """The confidential directory of the run, which must have its id."""
        return self.run_class()(self.runs / str(self.run_id))

    @classmethod
    def run_class(cls) -> type[SafeTabRun]:
        """Return the class of the run's directory."""
        found: type[SafeTabRun] = resolve_name(cls.RUN)
        return found

    @property
    def public_inputs(self) -> tuple[PublicInput, ...]:
        """The public inputs besides parameters, records and GRF-C."""
        return ()

    @property
    def shaping_options(self) -> dict[str, object]:
        """The options on which the noise depends; they are part of its key, with the parameter files."""
        listed = self.coterminous_list
        with refuse_unreadable(str(listed)):
            digest = digest_file(listed) if listed else None
        return {"region": self.jurisdiction, "coterminous": self.coterminous, "coterminous_list": digest}

    @property
    def release_options(self) -> dict[str, object]:
        """All options that shape a release; with the parameter files they make the configuration digest."""
        return self.shaping_options

    def configuration_digest(self) -> str:
        """Return the digest of the parameter files and the options. Raises Refused."""
        from tasks.safetab.parameters import configuration_digest, digest_parameters

        with refuse_unreadable(f"a file of {self.params}"):
            files = digest_parameters(self.params, self.run_class().CONFIGURATION)
        return configuration_digest(files, self.release_options)


class DetailedDhcaSettings(SafeTabSettings):
    """The inputs, outputs and options of one run of the Detailed DHC-A. It releases the US, Puerto Rico, or both."""

    SYSTEM = "detailed-dhca"
    SHOWN = ("coterminous", "estimates", "spine")
    RUN = "tasks.safetab.persons.run:DetailedRun"
    OF_TRUTH: ClassVar = {"spine": False, "coterminous": False}

    data: Location = argument("DATA", "Data directory (path or URL): person records (.txt or .parquet) and GRF-C.txt.")
    estimates: bool = option(False, "Also release estimates from both noisy answers: their errors are smaller.")
    spine: bool = option(True, "Also optimize the geographic spine.")

    @property
    def shaping_options(self) -> dict[str, object]:
        """The options on which the noise depends; they are part of its key, with the parameter files."""
        return super().shaping_options | ({"estimates": True} if self.estimates else {})

    @property
    def release_options(self) -> dict[str, object]:
        """All options that shape a release: the spine does not change the noise."""
        return self.shaping_options | ({} if self.spine else {"spine": False})


class DetailedDhcbSettings(SafeTabSettings):
    """The inputs, outputs and options of one run of the Detailed DHC-B. It releases the US, Puerto Rico, or both."""

    SYSTEM = "detailed-dhcb"
    SHOWN = ("coterminous", "estimates")
    RUN = "tasks.safetab.households.run:HouseholdRun"
    READS = ("detailed-dhca",)

    data: Location = argument(
        "DATA",
        "Data directory (path or URL): household records (.txt or .parquet), GRF-C.txt, and "
        "pop-group-totals.txt where --totals names no release.",
    )
    totals: Location | None = option(
        None, "Take the totals of groups from this release of das run: OUT, OUT/us or OUT/pr.", metavar="RELEASE"
    )
    coterminous: bool = option(False, "Equate coterminous geographies (Algorithm 4).")

    estimates: bool = option(False, "Also release estimates: both tables count the same households.")

    def releases(self) -> tuple[str, ...]:
        """Return the place of the release with the totals."""
        return (self.totals,) if self.totals else ()

    def check_without(self) -> None:
        """Refuse data files that are missing or lack columns; new_run has read the parameters."""
        from tasks.safetab.validation import check_data_alone

        if has_errors(findings := check_data_alone(self.run_class().KIND, self.data)):
            raise NotValid(f"the data in {self.data} does not pass validation", findings)

    @property
    def public_inputs(self) -> tuple[PublicInput, ...]:
        """The published totals of groups."""
        from tasks.safetab.households.totals import totals_input

        return (totals_input(self.totals, self.data, self.jurisdiction),)

    @property
    def shaping_options(self) -> dict[str, object]:
        """The options on which the noise depends; they are part of its key, with the parameter files."""
        (totals,) = self.public_inputs
        with refuse_unreadable(totals.files[0]):  # validation reports a missing file
            digest = totals.digest if exists(totals.files[0]) else None
        return super().shaping_options | {"totals": digest, **({"estimates": True} if self.estimates else {})}
