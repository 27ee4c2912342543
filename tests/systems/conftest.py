"""What the suite shares: `das` in this process without Prefect or Dask, and one run of each system."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple

import e2e_runs
import pytest
import toy_system
import typer

from flows import cli
from flows.execution.systems import SYSTEMS, all_data_files
from privacy.accounting.ledger import Account, Ledger, Row
from privacy.noise.query_noise import QueryNoise
from privacy.noise.randomness import RunSecret
from tasks.records.marks import Mark, data_files, save_mark
from tasks.releases.digests import file_digest
from tests.systems import in_process
from tests.systems.cases import CASES, Case

ACCOUNT = "account"


def every(*, but: str = "") -> pytest.MarkDecorator:
    """Have a test for each system, except those that cannot do what it is of."""
    return pytest.mark.parametrize("case", [case for case in CASES if but not in case.cannot], ids=str)


@pytest.fixture(scope="package", autouse=True)
def alike() -> Iterator[None]:
    """Commands run their stages in this process, under one secret; noise has the address of all but the input.

    So two runs on two inputs have the same noise, and can be compared.
    """
    init = QueryNoise.__init__

    def same_noise(self: QueryNoise, *given: Any, input_digest: str, **more: Any) -> None:
        init(self, *given, input_digest="", **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SYSTEMS, "toy", toy_system.TOY)
        in_process.patch_flows(patch)
        patch.setattr(cli.app, "registered_groups", [*cli.app.registered_groups])
        cli.add_system(toy_system.TOY)
        typer.main.get_command.cache_clear()  # type: ignore[attr-defined]  # tests/conftest.py caches it
        patch.setattr(RunSecret, "generate", classmethod(lambda cls: cls(bytes(range(32)))))
        patch.setattr(QueryNoise, "__init__", same_noise)
        yield
    typer.main.get_command.cache_clear()  # type: ignore[attr-defined]


class Ended(NamedTuple):
    """How a command ended: its exit code and what it printed."""

    code: int
    out: str
    err: str


def das(*words: object) -> Ended:
    """Call `das` in this process."""
    files = BytesIO(), BytesIO()
    out, err = (TextIOWrapper(file, "utf-8", write_through=True) for file in files)
    with redirect_stdout(out), redirect_stderr(err):
        code = e2e_runs.das(*words)
    told = [file.getvalue().decode() for file in files]
    assert "Traceback" not in "".join(told)
    return Ended(code, *told)


@dataclass
class Home:
    """A folder with a system's smallest input, an account, and what its commands leave there."""

    case: Case
    folder: Path
    total: str = ""

    def __post_init__(self) -> None:
        self.folder.mkdir(0o700, exist_ok=True)
        self.case.write(self.folder)
        account = Account(ACCOUNT, self.case.definition, Fraction(self.total or self.case.total), self.case.unit)
        self.ledger.open_account(account)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.folder / "ledger.sqlite")

    @property
    def release(self) -> Path:
        return self.folder / "out" / self.case.out

    @property
    def where(self) -> list[object]:
        """Where run directories and the ledger are."""
        return ["--runs-folder", self.folder / "state", "--ledger", self.folder / "ledger.sqlite"]

    def das(self, command: str, *words: object) -> Ended:
        """Call a command of the system."""
        *names, _ = SYSTEMS[self.case.name].command.split()[1:]
        return das(*names, command, *words)

    def run(self, *, account: str | None = ACCOUNT, run_id: str = "run", out: str = "out", more: str = "") -> Ended:
        """Run the system from the beginning."""
        charged = ["--account", account] if account else []
        words = [*self.paths, self.folder / out, *self.options, *self.case.options.split(), *charged]
        return self.das("run", *words, "--run-id", run_id, *more.split(), *self.where)

    @property
    def paths(self) -> list[str]:
        """The input, as a person types it."""
        return self.case.words.format(home=self.folder).partition(" --")[0].split()

    @property
    def options(self) -> list[str]:
        """The options that name the rest of the input."""
        return self.case.words.format(home=self.folder).split()[len(self.paths) :]

    def mark(self) -> None:
        """Mark the input as synthetic."""
        data = self.folder / "data" if (self.folder / "data").exists() else self.folder
        names = data_files(data, all_data_files()) if data != self.folder else self.case.records
        save_mark(data, Mark("a test", "1", None, {name: file_digest(data / name) for name in names}))

    @property
    def directory(self) -> Path:
        """The confidential directory of the run that is there."""
        (settings,) = (self.folder / "state/runs").glob("*/settings.json")
        return settings.parent

    def resume(self) -> Ended:
        """Resume the run that is there."""
        return self.das("run", "--resume", self.directory.name, *self.where)

    def rows(self) -> list[Row]:
        """The charges."""
        return self.ledger.rows(ACCOUNT)

    def left(self) -> list[Path]:
        """What runs left in the runs folder and in OUT."""
        return [path for name in ("state/runs", "out") for path in (self.folder / name).glob("*") if path.is_dir()]

    def put_back(self, kept: Path) -> None:
        """Make the folder what it was."""
        shutil.rmtree(self.folder)
        shutil.copytree(kept, self.folder)


@dataclass
class Finished:
    """A run that has ended in its release.

    release: not to be changed. killed: by stage, a copy of the home as a kill leaves it amid the stage: with the second
    of its files written but not named, or the first where it writes one.
    """

    home: Home
    ended: Ended
    release: Path
    killed: dict[str, Path] = field(default_factory=dict)


@pytest.fixture(scope="package")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Finished]:
    """Return the run of a system."""

    @cache
    def made(case: Case) -> Finished:
        folder = tmp_path_factory.mktemp(case.name)
        home = Home(case, folder / "home")
        killed: dict[str, Path] = {}
        with keeping(home.folder, folder / "killed", killed):
            ended = home.run()
        assert ended.code == 0, ended.err
        return Finished(home, ended, Path(shutil.copytree(home.release, folder / "release")), killed)

    return made


@contextmanager
def keeping(home: Path, into: Path, killed: dict[str, Path]) -> Iterator[None]:
    """Keep, for each stage, a copy of a folder before the second file of the stage gets its name, or the first."""
    stage, times = "", 0

    def begin(name: str) -> None:
        nonlocal stage, times
        stage, times = name, 0

    def renaming(rename: Callable[..., Any]) -> Callable[..., Any]:
        def keep(*arguments: Any, **more: Any) -> Any:
            nonlocal times
            if stage and times < 2:
                times += 1
                shutil.rmtree(into / stage, ignore_errors=True)
                killed[stage] = Path(shutil.copytree(home, into / stage))
            return rename(*arguments, **more)

        return keep

    in_process.before_stage.append(begin)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("replace", "rename"):
            patch.setattr(os, name, renaming(getattr(os, name)))
        yield
    in_process.before_stage.remove(begin)


@pytest.fixture
def new_home(tmp_path: Path) -> Callable[..., Home]:
    """Return a new home of a system."""
    return lambda case, name="home", **options: Home(case, tmp_path / name, **options)
