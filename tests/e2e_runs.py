"""What the end-to-end tests share: real data, the stages of a run in order, processes killed in the middle of one."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from hashlib import sha256
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import dask
import pytest
from dhca_inputs import BUDGETS, HERE, mark_synthetic

from flows.execution.runner import InProcess
from flows.execution.safetab_settings import DetailedDhcaSettings
from flows.execution.settings import RunSettings, keep_settings
from privacy.accounting.composition import UnitOfPrivacy
from privacy.accounting.ledger import Account, Ledger
from privacy.noise.laws import Definition
from tasks.errors import Refused
from tasks.lifecycle.authorization import SECRET
from tasks.lifecycle.commit import check_out, commit, finish_released
from tasks.lifecycle.reservation import authorize
from tasks.lifecycle.run_directory import locked
from tasks.lifecycle.workers import Workers
from tasks.records.marks import MARK_FILE
from tasks.releases.manifest import MANIFEST
from tasks.safetab import domain
from tasks.safetab.persons.run import DetailedRun
from tasks.safetab.run import claim

S = TypeVar("S", bound=RunSettings)
ACCOUNT = "census"
KEY = bytes(range(32))
# For runs under Prefect and on a cluster whose levels do not matter: two of each jurisdiction halve the time.
FEW_LEVELS = {name: 0 for name in BUDGETS if not re.search(r"level_2_(pr_)?(state|county)$", name)}
JOURNAL = re.compile(rb' "journal": "[0-9a-f]{64}",\n')


def real_data(example: Path, folder: Path) -> None:
    """Copy an example without its mark: runs on it are charged as for real persons."""
    shutil.copytree(example / "params", folder / "params")
    shutil.copytree(example / "data", folder / "data", ignore=shutil.ignore_patterns(MARK_FILE))


def reconfigure(params: Path, **changes: Any) -> None:
    """Change keys of a config.json."""
    path = params / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def settings_for(folder: Path, run_id: str = "run-pr", **changes: Any) -> DetailedDhcaSettings:
    """Settings of a run with everything in one folder."""
    known = {
        "params": folder / "params",
        "data": folder / "data",
        "out": folder / "out",
        "jurisdiction": run_id[-2:],
        "account": ACCOUNT,
        "ledger": folder / "ledger.sqlite",
        "runs_folder": folder / "state",
        "run_id": run_id,
        "spine": False,
    }
    return DetailedDhcaSettings.model_validate(
        {name: str(value) if isinstance(value, Path) else value for name, value in (known | changes).items()}
    )


def open_account(
    folder: Path,
    total: int = 1000,
    definition: Definition = "zcdp",
    name: str = ACCOUNT,
    unit: UnitOfPrivacy = "person",
) -> Ledger:
    """Open an account in the ledger that `settings_for` names."""
    ledger = Ledger(folder / "ledger.sqlite")
    ledger.open_account(Account(name, definition, Fraction(total), unit))
    return ledger


def directory(settings: DetailedDhcaSettings) -> DetailedRun:
    """The confidential directory of a run."""
    return DetailedRun(settings.runs / str(settings.run_id))


def go(settings: RunSettings, workers: Workers, before: str | None = None) -> Path | None:
    """Do what the flow does, without Prefect; stop before a stage if one is given."""
    run, out = settings.directory, Path(settings.out)
    with locked(run):
        if place := finish_released(run, out, settings.folder, settings.charging, settings.configuration_digest):
            return place
        check_out(run, out, settings.folder)
        keep_settings(run, settings)
        return InProcess(settings, workers, before=before).run()


def das(*words: object) -> int:
    """Run a `das` command in this process; returns its exit code."""
    from flows.cli import main

    before, sys.argv = sys.argv, ["das", *map(str, words)]
    try:
        main()
    except SystemExit as left:
        return int(left.code or 0)
    finally:
        sys.argv = before
    return 0


def das_process(*words: object, first: str = "", environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Start a `das` command in a process of its own, after some lines of Python; both outputs are one.

    Without an environment it is under the Prefect server of this process, if there is one.
    """
    from prefect.settings import get_current_settings

    from flows.execution.no_server import is_without_server

    program = f"{first}\nfrom flows.cli import main\nmain()"
    here = os.environ | {"PREFECT_API_URL": "" if is_without_server() else get_current_settings().api.url or ""}
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment or here,
        start_new_session=True,
    )


def prepared(example: Path, folder: Path, run_id: str) -> tuple[DetailedDhcaSettings, str]:
    """A run of Puerto Rico with a secret, on synthetic data, and the digest of the release that it gives."""
    real_data(example, folder)
    reconfigure(folder / "params", run_us=False)
    mark_synthetic(folder / "data")
    return foreseen(settings_for(folder, run_id, account=None))


def foreseen(settings: S) -> tuple[S, str]:
    """A run on synthetic data with a secret, and the digest of the release that it gives."""
    aside = str(Path(settings.out).with_name("aside"))
    place = go(with_secret(settings.model_copy(update={"runs_folder": aside, "out": aside})), HERE)
    assert place is not None
    return with_secret(settings), digest(place)


def with_secret(settings: S, secret: bytes = KEY) -> S:
    """Give a run on synthetic data its secret beforehand, so that its release is known."""
    settings.directory.create()
    (settings.directory / SECRET).write_bytes(secret)
    return settings


@contextmanager
def small_pieces() -> Iterator[None]:
    """Cut the groups of a level into pieces of a region each, here and on the workers of clusters that start within."""
    preload = ["from tasks.safetab import domain; domain.GROUPS_EACH = 1"]
    with pytest.MonkeyPatch.context() as patch, dask.config.set({"distributed.worker.preload": preload}):
        patch.setattr(domain, "GROUPS_EACH", 1)
        yield


def digest(folder: Path, *, reservation: bool = True) -> str:
    """One digest of all names and bytes below a folder.

    Without the reservation: less what two reservations of one run differ in, the head of the journal in the manifest.
    """
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    named = ((str(path.relative_to(folder)), path.read_bytes()) for path in paths)
    if not reservation:
        named = ((name, JOURNAL.sub(b"", content) if name == MANIFEST else content) for name, content in named)
    return sha256(b"".join(name.encode() + sha256(content).digest() for name, content in named)).hexdigest()


# Processes that die. Between two calls to the kernel or the database nothing changes that a crash would leave behind.
# So it is enough to kill a process before each of them: before the first, second, ... time that a line of our files or
# of the library makes such a call. Loops over many files are killed in some of their rounds.

Point = tuple[str, int]
FILES = (
    *("authorization.py", "commit.py", "files.py", "reservation.py", "run_directory.py", "staging.py"),  # lifecycle
    *("ledger.py", "entries.py", "journal.py", "pathlib.py", "shutil.py"),
)
CALLS = ("open", "write", "fsync", "mkdir", "rename", "replace", "unlink", "rmdir", "execute", "executemany")
_context = multiprocessing.get_context("forkserver")


def reserve(settings: DetailedDhcaSettings) -> None:
    """The reservation, as the flow calls it."""
    authorize(settings.charging, claim(directory(settings), settings.jurisdiction, settings.shaping_options))


def bring_in(settings: DetailedDhcaSettings) -> None:
    """The commit of a run on real data, as the flow calls it."""
    commit(directory(settings), Path(settings.out), settings.jurisdiction, settings.charging, charged=True)


def points_of(folder: Path, function: Callable[..., Any], *arguments: Any) -> list[Point]:
    """Call a function in a process of its own; returns the points at which it could be killed."""
    into = folder / "points.json"
    assert _run(_context.Process(target=_record, args=(into, function, arguments))) == 0
    points = [(what, times) for what, times in json.loads(into.read_text())]
    last = dict(points)
    return [(what, times) for what, times in points if times in _some(last[what])]


def _some(count: int) -> set[int]:
    return {1, count // 2, count}


def killed(at: Point, function: Callable[..., Any], *arguments: Any) -> None:
    """Call a function in a process of its own that is killed, as if by the kernel, when it comes to a point."""
    code = _run(_context.Process(target=_die, args=(at, function, arguments)))
    assert code == -signal.SIGKILL, f"ended with {code} before {at}"


def _run(process: BaseProcess) -> int | None:
    process.start()
    process.join()
    code = process.exitcode
    process.close()
    return code


def _record(into: Path, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    points: list[Point] = []
    watch(points.append)
    function(*arguments)
    sys.setprofile(None)
    into.write_text(json.dumps(points), encoding="utf-8")


def _die(at: Point, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    watch(lambda point: os.kill(os.getpid(), signal.SIGKILL) if point == at else None)
    function(*arguments)


def watch(seen: Callable[[Point], None]) -> None:
    """Tell `seen` of every point that this process comes to."""
    times: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, called: Any) -> None:
        file = os.path.basename(frame.f_code.co_filename)
        if event == "c_call" and file in FILES and called.__name__ in CALLS:
            what = f"{called.__name__} in {file}:{frame.f_lineno}"
            times[what] += 1
            seen((what, times[what]))

    sys.setprofile(profile)


def arm(died: Path, moment: str, target: str = "", of: str = "os.replace") -> None:
    """Make this process die once, before or after it calls a function whose last argument names the target.

    Of all processes that are armed with one file, the first to come there leaves its id in it and is killed; the others
    go on, and so does whatever takes its place.
    """
    module, _, name = of.rpartition(".")
    place = importlib.import_module(module)
    function = getattr(place, name)
    function = getattr(function, "unarmed", function)

    def deadly(*arguments: Any) -> Any:
        result = function(*arguments) if moment == "after" else None
        if target in str(arguments[-1]):
            # Of an earlier test, which passed, the folder is gone.
            with suppress(FileExistsError, FileNotFoundError), open(died, "x", encoding="utf-8") as note:
                note.write(str(os.getpid()))
                note.flush()
                os.kill(os.getpid(), signal.SIGKILL)
        return result if moment == "after" else function(*arguments)

    deadly.unarmed = function  # type: ignore[attr-defined]
    setattr(place, name, deadly)


def hold(path: Path) -> BaseProcess:
    """Start a process that holds a run's lock until it is killed."""
    ready = _context.Event()
    process = _context.Process(target=_hold, args=(path, ready))
    process.start()
    assert ready.wait(60)
    return process


def _hold(path: Path, ready: Any) -> None:
    with locked(DetailedRun(path)):
        ready.set()
        signal.pause()


def at_once(function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> list[int | None]:
    """Make calls in processes of their own, all at the same time; returns their exit codes, 0 where none raised."""
    barrier = _context.Barrier(len(calls))
    processes = [_context.Process(target=_meet, args=(barrier, function, call)) for call in calls]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def _meet(barrier: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    barrier.wait(60)
    try:
        function(*arguments)
    except Refused:
        sys.exit(1)
