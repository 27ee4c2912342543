"""The Detailed DHC-A as a Prefect flow: SafeTab-P from files to release, for the US or Puerto Rico.

    validate -> population groups -> budget check -> totals -> sex by age -> suppression -> coterminous -> release
                                                     \\_______ per population group level ______/            /
    geographic spine (public geography only) -----------------------------------------------------------------

Every task is coarse: it maps many Dask calls and waits for them. A task that is retried repeats the same noise, so
retries are safe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, runtime, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.futures import PrefectFuture
from prefect.task_runners import ThreadPoolTaskRunner

from flows.execution.cluster import open_cluster
from flows.execution.expected_work import expected_work
from flows.execution.progress import expect, report
from flows.execution.settings import RunSettings, keep_settings
from tasks.detailed_dhca.budget_check import check_budget, foresee_budget
from tasks.detailed_dhca.coterminous import equate_coterminous, save_sets
from tasks.detailed_dhca.population_groups import count_population_groups
from tasks.detailed_dhca.release import stage_release
from tasks.detailed_dhca.run import DetailedRun, Validated
from tasks.detailed_dhca.sex_by_age import measure_sex_by_age
from tasks.detailed_dhca.suppression import suppress
from tasks.detailed_dhca.totals import measure_totals
from tasks.detailed_dhca.validation import validate
from tasks.inputs.parameters import configuration_digest, digest_parameters
from tasks.lifecycle.authorization import AUTHORIZATION, is_truth
from tasks.lifecycle.commit import check_out, commit, end_run, finish_released
from tasks.lifecycle.confidential import guard
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.run_directory import RunDirectory, locked
from tasks.lifecycle.staging import staging
from tasks.lifecycle.workers import Workers
from tasks.spine.branch import build_spine

TASKS_AT_ONCE = 4  # stages of different levels; the Dask workers behind them are the limit


async def _worth_retrying(_task: Any, _task_run: TaskRun, state: State[Any]) -> bool:
    """A refusal stays one however often it is asked."""
    return not isinstance(await state.aresult(raise_on_failure=False), Refused)


@task(retries=2, retry_delay_seconds=1, retry_condition_fn=_worth_retrying, cache_policy=NO_CACHE, persist_result=False)
def stage(name: str, run: RunDirectory, function: Callable[..., Any]) -> Any:
    """Run one stage of a run; what goes wrong in it stays in the confidential directory."""
    return guard(name, run, function)


Future = PrefectFuture[Any]


def _submit(name: str, run: RunDirectory, function: Callable[..., Any], *after: Future) -> Future:
    of_stage = name.partition(" (")[0]
    named = stage.with_options(name=of_stage, task_run_name=name)
    future: Future = named.submit(name, run, function, return_state=False, wait_for=after)
    return future


RUNNER: Any = ThreadPoolTaskRunner(max_workers=TASKS_AT_ONCE)  # any: prefect's own types do not fit each other


@flow(name="detailed-dhca", task_runner=RUNNER, persist_result=False)
def detailed_dhca(settings: RunSettings) -> str | None:
    """Run SafeTab-P over one region and release its tables; returns the release's path, None for a skipped region.

    A region that has no block or that config.json switches off is skipped and charges nothing. Retried or started again
    under the same run id, the flow takes up its own run: the same noise, one charge, one release.
    """
    run_id = settings.run_id or f"{runtime.flow_run.id}-{settings.region}"
    settings = settings.model_copy(update={"run_id": run_id, "out": settings.out.replace("{run}", run_id)})
    run = DetailedRun(settings.runs / run_id)
    out = Path(settings.out)
    logger = get_run_logger()
    logger.info("run %s", run.id)
    with locked(run):
        if is_truth(run):
            raise Refused(f"{run.id} is the directory of a das truth: it can never be released")
        if place := finish_released(run, out, settings.region, settings.charging, lambda: _configuration(settings)):
            logger.info("released already: %s", place)
            return str(place)
        check_out(run, out, settings.region)
        keep_settings(run, settings)
        with _workers(settings, run) as workers:
            released = _stages(settings, run, out, workers)
        if released is None:
            if (run / AUTHORIZATION).exists():
                raise Refused(f"run {run.id} was reserved, and its inputs now have nothing to release for its region")
            end_run(run)
    if released is None:
        logger.warning("%s has no block, or config.json switches it off: skipped, nothing charged", settings.region)
        return None
    logger.info("released: %s", released)
    return str(released)


def _configuration(settings: RunSettings) -> str:
    """The digest of all that shapes the release that is asked for, besides the data. Raises Refused."""
    try:
        return configuration_digest(digest_parameters(settings.params), settings.shaping_options)
    except OSError as error:
        raise Refused(f"{settings.params}: {error.strerror or 'a file cannot be read'}") from None


@contextmanager
def _workers(settings: RunSettings, run: DetailedRun) -> Iterator[Workers]:
    with open_cluster(settings.cluster, run / "dask") as client:
        expect(partial(expected_work, run, settings.region, settings.spine))
        yield Workers(client, report)


def _stages(settings: RunSettings, run: DetailedRun, out: Path, workers: Workers) -> Path | None:
    """The DAG of a run."""
    region, charging = settings.region, settings.charging
    options = settings.shaping_options
    params, data = settings.params, settings.data
    foreseen = _submit(
        "account", run, partial(foresee_budget, params=params, data=data, region=region, charging=charging)
    )
    validated = _submit(
        "validate", run, partial(validate, workers=workers, params=params, data=data, region=region), foreseen
    )
    foreseen.result()
    checked: Validated | None = validated.result()
    if checked is None:
        return None
    counted = _submit(
        "population groups",
        run,
        partial(count_population_groups, workers=workers, region=region, blocks_each=settings.blocks_each),
        validated,
    )
    listed = settings.coterminous_list
    sets = _submit(
        "coterminous sets",
        run,
        partial(
            save_sets,
            region=region,
            enabled=settings.coterminous,
            listed=listed,
            digest=options["coterminous_list"],
        ),
        validated,
    )
    gate = _submit(
        "budget check", run, partial(check_budget, region=region, charging=charging, options=options), counted, sets
    )
    configuration = run.parameters.configuration
    built = _submit_spine(settings, run, out, workers, configuration.states(region)) if settings.spine else None
    measured: list[Future] = []
    published = []
    for level in configuration.levels(region):
        totals = _submit(f"totals {level}", run, partial(measure_totals, workers=workers, level=level), gate)
        tables = _submit(f"sex by age {level}", run, partial(measure_sex_by_age, workers=workers, level=level), totals)
        published.append(_submit(f"suppression {level}", run, partial(suppress, workers=workers, level=level), tables))
        measured += [totals, tables, published[-1]]
    equated = _submit(
        "coterminous",
        run,
        partial(equate_coterminous, workers=workers, region=region, enabled=settings.coterminous, listed=listed),
        *published,
    )
    for future in (counted, sets, gate, *measured, equated):
        future.result()  # what failed says why; the stages after it would only say that they never ran
    spine = _line(built)  # asked for only now: a run that fails does not wait for it
    staged = _submit(
        "release",
        run,
        partial(stage_release, workers=workers, region=region, out=out, options=options, spine=spine),
        equated,
    )
    done = _submit(
        "commit", run, partial(commit, out=out, region=region, charging=charging, charged=not checked.synthetic), staged
    )
    staged.result()
    place: Path = done.result()
    return place


def _submit_spine(
    settings: RunSettings, run: DetailedRun, out: Path, workers: Workers, states: tuple[str, ...]
) -> Future:
    """The spine branch; what it raises goes into the manifest's line, never into the run's way."""
    folder = staging(run, out, settings.region) / "spine"
    build = partial(build_spine, workers, settings.data, settings.region, states, folder)
    return _submit("spine", run, lambda _run: build())


def _line(built: Future | None) -> str:
    """What the manifest says of the spine branch."""
    if built is None:
        return "not asked for"
    line = built.result(raise_on_failure=False)
    return line if isinstance(line, str) else "not built: its stage failed"
