"""What the tests of commands and pages share: `das` in this process, the session's cluster, a release, a browser."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import e2e_runs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dhca_inputs import BUDGETS, HERE, stage_here
from show_release import inputs, serving
from typer.testing import CliRunner

from flows.cli import app
from privacy.accounting.composition import spend
from tasks.bottom_up.release_tables import description
from tasks.releases.describe import write_descriptions
from tasks.releases.manifest import FORMAT
from tests.conftest import lacking

Das = Callable[..., tuple[int, str, str]]
Refuse = Callable[..., str]
BROWSER = ("chromium", "chromedriver")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage"
)


DECLARATION = """
states = ["44", "45", "46"]
leaves = { file = "counties.csv", key = "COUNTY" }
levels = [{ name = "state", columns = ["STATE"] }, { name = "county", columns = ["COUNTY"] }]
[axes.SEX]
column = "SEX"
values = ["1", "2"]
"""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the tests of pages in a browser to CI: a page takes seconds to load."""
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.ci)


@pytest.fixture
def das(capfd: pytest.CaptureFixture[str]) -> Das:
    """Call `das` in this process; returns exit code, standard output, standard error."""

    def call(*words: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = e2e_runs.das(*words)
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return call


def printed(*words: object) -> str:
    """Call `das` in this process; return its standard output, and raise whatever ends it, except a usage error."""
    return CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False).stdout


@pytest.fixture
def refused(das: Das) -> Refuse:
    """Call `das` with what it must refuse: exit 1 and one line that says why; only findings are on standard output.

    Returns both outputs.
    """

    def call(message: str, *words: object, findings: bool = False) -> str:
        code, out, err = das(*words)
        line = err.splitlines()[-1]
        assert code == 1
        assert line.startswith("refused: ")
        assert message in line
        assert findings or out == ""
        return out + err

    return call


@contextmanager
def processor_seconds(limit: float, what: object) -> Iterator[None]:
    """Fail where the block takes more processor time: it hangs. Thirty times as much waiting is a hang too."""

    def end(*_: object) -> None:
        raise AssertionError(f"{what} hangs")

    alarms = (signal.SIGALRM, signal.SIGPROF)
    before = [signal.signal(alarm, end) for alarm in alarms]
    signal.setitimer(signal.ITIMER_PROF, limit)
    signal.setitimer(signal.ITIMER_REAL, 30 * limit)  # a busy machine alone makes it slow
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for alarm, handler in zip(alarms, before, strict=True):
            signal.signal(alarm, handler)


@pytest.fixture(scope="session")
def all_inputs(example: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with good inputs of every command. Copy before you change it."""
    from top_down_inputs import country

    from flows.commands.demo import PLAN
    from tasks.bottom_up.example import make_example

    folder = tmp_path_factory.mktemp("inputs") / "all"
    shutil.copytree(example, folder)
    country(folder / "country", ("46",)).rename(folder / "tda")
    make_example(folder, 200, states=2, counties=1)
    (folder / "census.toml").write_text(PLAN.replace("ddhcb/data", "data").replace("sdhc/", ""))
    (folder / "blocks.csv").write_text("STATE,COUNTY,TRACT,BLOCK,POP\n44,001,000100,1000,5\n")
    return folder


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A staged release of synthetic data. Copy before you change it."""
    return stage_here(tmp_path_factory.mktemp("show"), inputs(), coterminous=True)[1]


@pytest.fixture(scope="session")
def few_levels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `released`, with the nation's levels: a check takes as long as it has levels. Copy before you change it."""
    made = inputs()
    made.config |= dict.fromkeys(BUDGETS[2:], 0)
    return stage_here(tmp_path_factory.mktemp("few"), made)[1]


@pytest.fixture(scope="session")
def top_down_released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A staged TopDown release of synthetic data of two states, with the nation above. Copy before you change it."""
    from top_down_inputs import begin, country, design, finish

    folder = tmp_path_factory.mktemp("top-down")
    return finish(begin(folder, country(folder), design(nation=True)), folder)


def bottom_up(folder: Path, *, clip: bool, marginals: tuple[tuple[str, ...], ...] = ((), ("SEX",))) -> Path:
    """Make a bottom-up release of few records."""
    from tasks.bottom_up.declared_histogram import read_declared_histogram
    from tasks.bottom_up.measure import CHOICES, BottomUpPlan, calibrate_counts, claim, measure
    from tasks.bottom_up.release import write_release
    from tasks.bottom_up.tabulate import tabulate
    from tasks.geography.public_regions import keep_regions
    from tasks.lifecycle.files import save_object
    from tasks.lifecycle.reservation import Charging, authorize
    from tasks.lifecycle.run_directory import RunDirectory
    from tasks.lifecycle.staging import stage_in_one_piece

    (folder / "declaration.toml").write_text(DECLARATION)
    (folder / "counties.csv").write_text("STATE,COUNTY\n44,44001\n44,44003\n45,45001\n46,46001\n")
    (folder / "table.csv").write_text("COUNTY,SEX\n" + "44001,1\n" * 5 + "44003,2\n" * 90 + "46001,2\n" * 4)
    ledger = e2e_runs.open_account(folder, total=1, definition="puredp", name="long-form")
    run = RunDirectory(folder / "runs/r1")
    run.create()
    declared = read_declared_histogram(folder / "declaration.toml")
    save_object(run / CHOICES, BottomUpPlan(declared, Fraction(1, 2), marginals=marginals, clip=clip))
    (folder / "names.csv").write_text(
        "REGION_TYPE|REGION_ID|NAME\nCOUNTY|45001|Abbeville\nCOUNTY|45003|Not tabulated\n"
    )
    keep_regions(run, str(folder / "names.csv"))
    tabulate(run, HERE, str(folder / "table.csv"), declared)
    authorize(Charging("long-form", ledger.path), claim(run))
    measure(run, HERE)
    calibrate_counts(run, HERE)
    stage_in_one_piece(run, HERE, folder / "release", write_release)
    return folder / "release"


@pytest.fixture(scope="session")
def bottom_up_released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A staged bottom-up release. Copy before you change it."""
    return bottom_up(tmp_path_factory.mktemp("bottom-up"), clip=False)


@pytest.fixture
def histogram(tmp_path: Path) -> Path:
    """The tables of a bottom-up release of 300 counties by sex, on a grid of quarters."""
    out = tmp_path / "bottom-up"
    (out / "parquet").mkdir(parents=True)
    rows = [{"COUNTY": f"{n:05d}", "SEX": sex, "COUNT": n - 0.25, "MOE": 2.5} for n in range(300) for sex in "12"]
    pq.write_table(pa.Table.from_pylist(rows), out / "parquet/histogram.parquet")
    pq.write_table(pa.table({"COUNT": [89_550.0], "MOE": [61.0]}), out / "parquet/total.parquet")
    manifest = {
        "release": "Bottom-up histogram by the two-tailed geometric mechanism",
        "run": "r1",
        "format": FORMAT,
        "spent": spend("puredp", [Fraction(1)]).as_json(),
        "noise": {"law": "two-sided geometric", "scale": "2", "variance": 7.8, "step": "1/4"},
        "histogram": {"regions": []},
        "design": {"marginals": [[]]},
        "calibration": {"method": None},
        "clipped": True,
        "statements": {},
    }
    write_descriptions(out, description(manifest), manifest)
    return out


@pytest.fixture(scope="session")
def page(released: Path) -> Iterator[str]:
    """The address of the small release's page."""
    with serving(released) as address:
        yield address


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser."""
    if not all(map(shutil.which, BROWSER)):
        lacking("chromium and chromedriver")
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = shutil.which(BROWSER[0])
    for flag in (*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=ChromeService(shutil.which(BROWSER[1])))
    yield driver
    driver.quit()


@pytest.fixture
def sized(chromium: Any) -> Callable[..., Any]:
    """The browser with a window of some width, light or dark, or as it prints."""

    def of(width: int, scheme: str = "light", media: str = "screen") -> Any:
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
        return chromium

    return of
