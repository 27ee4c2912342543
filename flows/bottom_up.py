"""The bottom-up mechanism as a Prefect flow on Dask, over a table larger than memory.

    tabulate -> budget check -> measure -> calibrate -> release -> commit

Account, reservation, secret, commit and cluster are those of every run (flows.detailed_dhca).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from prefect import flow, get_run_logger, runtime
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from flows.cluster import ClusterSettings, open_cluster
from flows.detailed_dhca import stage
from flows.progress import report
from flows.settings import Location, state_home
from privacy.calibration import Method
from tasks.bottom_up.domain import read_domain, read_totals
from tasks.bottom_up.measure import PLAN, Plan, Sampler, calibrate_counts, check_budget, measure
from tasks.bottom_up.release import stage_release
from tasks.bottom_up.tabulate import tabulate
from tasks.budget_check import Charging
from tasks.commit import check_out, commit, finish_released, staging
from tasks.errors import Refused
from tasks.run_directory import RunDirectory, load_public, locked, save_public
from tasks.workers import Workers

BOTTOM_UP_SETTINGS = "bottom-up.json"  # not run.json, from which `das run` resumes
FOLDER = "bottom-up"  # the release is OUT/bottom-up


def exact_number(text: str) -> str:
    """Check a number that is kept as it was written, `0.5` or `1/2`. Raises ValueError."""
    try:
        Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{text!r} is not a number") from None
    return text


Exact = Annotated[str, AfterValidator(exact_number)]


class BottomUpSettings(BaseModel):
    """What one bottom-up run reads, writes and may spend: paths and public numbers, as Prefect shows them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    table: Location = Field(description="The table: text or Parquet, by path or URL.")
    domain: Location = Field(description="The declared domain, a JSON file.")
    out: Location = Field(description="Where the release goes, as OUT/bottom-up.")
    epsilon: Exact = Field(description="Privacy-loss budget of the histogram, exact.")
    sampler: Sampler = "exact"
    totals: Location | None = Field(default=None, description="Published totals to calibrate to.")
    calibration: Method = "additive"
    tolerance: Exact = Field(default="0", description="How far a consistent total may be from the data.")
    margins: tuple[tuple[str, ...], ...] | None = Field(default=None, description="Margins; by default each factor.")
    clip: bool = Field(default=False, description="Publish no negative count.")
    account: str | None = None
    ledger: Location = Field(default_factory=lambda: str(state_home() / "ledger.sqlite"))
    state: Location = Field(default_factory=lambda: str(state_home()))
    run_id: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    cluster: ClusterSettings = Field(default_factory=ClusterSettings)

    @property
    def charging(self) -> Charging:
        """Where the spend is charged."""
        return Charging(self.account, Path(self.ledger))

    @property
    def runs(self) -> Path:
        """The folder of the confidential run directories."""
        return Path(self.state) / "runs"

    def plan(self) -> Plan:
        """What the run is to do, from the public files. Raises Refused."""
        domain = read_domain(Path(self.domain))
        each = ((), *((name,) for name in (*domain.factors, *domain.groups)))
        try:
            plan = Plan(
                domain=domain,
                epsilon=Fraction(self.epsilon),
                sampler=self.sampler,
                totals=read_totals(Path(self.totals), domain) if self.totals else None,
                calibration=self.calibration,
                tolerance=Fraction(self.tolerance),
                margins=each if self.margins is None else self.margins,
                clip=self.clip,
            )
            for margin in plan.margins:
                domain.grouping(margin)
            if plan.tolerance < 0:
                raise ValueError("the tolerance must not be negative")
            plan.mechanism  # noqa: B018  refuses a budget that is not positive
        except ValueError as error:
            raise Refused(str(error)) from None
        return plan


def new_bottom_up_settings(**values: Any) -> BottomUpSettings:
    """Settings from what a person typed. Raises Refused with the first fault."""
    try:
        return BottomUpSettings(**values)
    except ValidationError as error:
        first = error.errors()[0]
        raise Refused(f"{first['loc'][0]}: {first['msg'].removeprefix('Value error, ')}") from None


def load_bottom_up_settings(run: RunDirectory) -> BottomUpSettings:
    """The settings that a run was started with. Raises Refused where there is no such run."""
    try:
        return BottomUpSettings.model_validate_json((run / BOTTOM_UP_SETTINGS).read_text())
    except OSError:
        raise Refused(f"run {run.id} has no confidential directory here, or is no bottom-up run") from None


RUNNER: Any = ThreadPoolTaskRunner(max_workers=1)  # @flow's type is invariant in the future of a task


@flow(name="bottom-up", task_runner=RUNNER, persist_result=False)
def bottom_up(settings: BottomUpSettings) -> str:
    """Release a noisy histogram and its margins; returns the release's path.

    Retried or started again under the same run id, the flow takes up its own run: the same noise, one charge, one
    release.
    """
    run_id = settings.run_id or f"{runtime.flow_run.id}-bottom-up"
    run, out = RunDirectory(settings.runs / run_id), Path(settings.out)
    logger = get_run_logger()
    logger.info("run %s", run.id)
    with locked(run):
        place = finish_released(run, out, FOLDER, settings.charging)
        if place is None:
            check_out(run, out, FOLDER)
            save_public(run / PLAN, settings.plan())
            (run / BOTTOM_UP_SETTINGS).write_text(settings.model_copy(update={"run_id": run_id}).model_dump_json())
            with open_cluster(settings.cluster, run / "dask") as client:
                place = _stages(settings, run, out, Workers(client, report))
    logger.info("released: %s", place)
    return str(place)


def _stages(settings: BottomUpSettings, run: RunDirectory, out: Path, workers: Workers) -> Path:
    """The stages of a run, one after another: each needs all of the one before."""
    plan: Plan = load_public(run / PLAN)
    tabulated = _stage("tabulate", run, partial(tabulate, workers=workers, table=settings.table, domain=plan.domain))
    _stage("budget check", run, partial(check_budget, charging=settings.charging))
    _stage("measure", run, partial(measure, workers=workers))
    _stage("calibrate", run, partial(calibrate_counts, workers=workers))
    _stage("release", run, partial(stage_release, workers=workers, staged=staging(run, out, FOLDER)))
    done = partial(commit, out=out, region=FOLDER, charging=settings.charging, charged=not tabulated.synthetic)
    place: Path = _stage("commit", run, done)
    return place


def _stage(name: str, run: RunDirectory, function: Callable[..., Any]) -> Any:
    return stage.with_options(name=name, task_run_name=name).submit(name, run, function).result()
