"""Runners of a system's stages, whose order is written once, as a function of a runner.

A flow runs them as Prefect tasks (run.py). `InProcess` calls them one after another: for `das accuracy`, benchmarks,
tests and, with the noise switched off, `das truth`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from flows.execution.settings import RESERVATION, RunSettings
from tasks.errors import Failed, Refused
from tasks.lifecycle.authorization import may_draw
from tasks.lifecycle.commit import check_out, commit, mark_truth
from tasks.lifecycle.confidential import guard
from tasks.lifecycle.reservation import Claim, Input, authorize, register_if_marked
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.staging import staging
from tasks.lifecycle.workers import Workers
from tasks.records.marks import MARK_FILES, read_mark

S = TypeVar("S", bound=RunSettings)


class Stage(Protocol):
    """A stage that was started."""

    def result(self) -> Any:
        """Wait for its end and return its result, or raise its exception."""


class Stopped(Exception):
    """The next stage is the one before which to stop."""


class Runner(ABC, Generic[S]):
    """Starts the stages of one run, or of one part of it.

    parts: the runners of all parts, in the order in which they run. asks: what is asked for all of them, once the input
    is validated. reserved: the stage that reserves, once started.
    """

    def __init__(self, settings: S, workers: Workers) -> None:
        self.settings = settings
        self.workers = workers
        self.directory: RunDirectory = settings.directory  # the first argument of every stage
        self.charged = False
        self.parts: Sequence[Runner[S]] = (self,)
        self.asks: Sequence[Ask] = ()
        self.reserved: Stage | None = None

    @property
    def out(self) -> Path:
        """The folder in which the release gets its own folder."""
        return Path(self.settings.out)

    @property
    def staged(self) -> Path:
        """The folder in which the release is made."""
        return staging(self.directory, self.out, self.settings.folder)

    def run(self) -> Path | None:
        """Run the system's stages; return the release, or None if they stopped before it or released nothing."""
        with suppress(Stopped):
            place: Path | None = self.settings.system.part("stages")(self)
            return place
        return None

    @abstractmethod
    def submit(self, name: str, function: Callable[..., Any], /, *after: Stage, **arguments: Any) -> Stage:
        """Start the stage `function(directory, **arguments)` once the stages `after` have succeeded."""

    @abstractmethod
    def attempt(self, name: str, function: Callable[..., Any], /, **arguments: Any) -> Stage:
        """Start a stage that no other waits for; if it fails, the run continues and its result is None."""

    @abstractmethod
    def wait(self) -> None:
        """Wait for all stages that were submitted; raise the first failure."""

    def do(self, name: str, function: Callable[..., Any], /, **arguments: Any) -> Any:
        """Run a stage and return its result."""
        return self.submit(name, function, **arguments).result()

    def reserve(self, claim: Callable[..., Claim], /, *after: Stage, given: Input, **arguments: Any) -> Stage:
        """Start the stage that reserves what `claim(directory, **arguments)` asks and so permits the run to draw noise.

        given: what validation returned.
        """
        return self.reserve_all([Ask(self, given, partial(claim, **arguments))], *after)

    def reserve_all(self, asks: Sequence[Ask], /, *after: Stage) -> Stage:
        """Start the stage that reserves what all of these parts ask, or nothing."""
        self.asks = asks
        reserved = self.submit(RESERVATION, self.reservation(asks), *after)
        for ask in asks:
            ask.part.charged, ask.part.reserved = ask.given.mark is None, reserved
        return reserved

    def reservation(self, asks: Sequence[Ask]) -> Callable[..., None]:
        """Do what comes before the reservation, and return the function of its stage."""
        for ask in asks:
            ask.check_mark()
        return lambda _directory: authorize(self.settings.charging, *(ask.claim() for ask in asks))

    def commit(self, *after: Stage) -> Path:
        """Move the staged release to its place, end the run, and return the place."""
        settings = self.settings
        arguments = {"out": self.out, "folder": settings.folder, "charging": settings.charging}
        committed = self.submit("commit", commit, *after, **arguments, charged=self.charged)
        self.wait()
        place: Path = committed.result()
        return place


@dataclass(frozen=True)
class Ask:
    """A request of a run, or of a part of it, to be charged.

    given: the result of validation. make: returns what the run of a directory asks; it is not called where the stages
    are only repeated.
    """

    part: Runner[Any]
    given: Input
    make: Callable[[Any], Claim]

    def check_mark(self) -> None:
        """Refuse data whose mark was taken away since it was validated; a run that may have drawn goes on.

        Raises Refused.
        """
        settings, mark = self.part.settings, self.given.mark
        if mark and not may_draw(self.part.directory):
            now = read_mark(settings.marks)
            if now is None or now.name != mark:
                raise Refused(
                    f"the data of run {self.part.directory.id} was marked {mark.lower()} when it was validated, and is "
                    f"not now: put {MARK_FILES[mark]} back into {settings.marks}, or start a new run"
                )

    def claim(self) -> Claim:
        """Return what is asked, made behind the confidential wall: the flow's own thread may want to know."""
        claim: Claim = guard(RESERVATION, self.part.directory, self.make)
        return claim


def ended(result: Any = None) -> Stage:
    """Return a stage that has ended."""
    stage = Future[Any]()
    stage.set_result(result)
    return stage


class InProcess(Runner[S]):
    """Runs the stages in this process, in the order in which they are submitted; their pieces go to the workers.

    before: the stage to stop before; for a stage with levels, before its first one. done: results of stages that
    another run directory has; these are not run. directory: in place of the settings' own.
    """

    def __init__(
        self,
        settings: S,
        workers: Workers,
        *,
        before: str | None = None,
        done: Mapping[str, Any] | None = None,
        directory: RunDirectory | None = None,
    ) -> None:
        super().__init__(settings, workers)
        self.before = before
        self.directory = directory or settings.directory
        self.results = dict(done or {})

    def submit(self, name: str, function: Callable[..., Any], /, *_after: Stage, **arguments: Any) -> Stage:
        """Run the stage."""
        if name.partition(" (")[0] == self.before:
            raise Stopped
        if name not in self.results:
            self.results[name] = self.call(name, partial(function, self.directory, **arguments))
        return ended(self.results[name])

    def call(self, _name: str, function: Callable[[], Any]) -> Any:
        """Call a stage. Benchmarks override it to measure stages."""
        return function()

    def attempt(self, name: str, function: Callable[..., Any], /, **arguments: Any) -> Stage:
        """Run the stage; ignore its exceptions."""
        try:
            return self.submit(name, function, **arguments)
        except Stopped:
            raise
        except Exception:
            return ended()

    def wait(self) -> None:
        """Return at once: every stage has ended."""

    def is_marked(self, ask: Ask) -> bool:
        """Return whether the data of what spends nothing is marked; if so, the ledger knows it from now on.

        Raises Refused where the ledger contradicts the mark or its absence, or cannot be used: no run is resumed.
        """
        digests = {ask.given.input_digest, *ask.given.records_digests}
        try:
            return register_if_marked(self.directory.id, self.settings.charging.ledger, digests, ask.given.mark)
        except Failed as error:
            raise Refused(str(error)) from None


class _Truth(InProcess[S]):
    """Runs the stages in a directory that is marked as a truth's, so they cannot draw noise."""

    def __init__(self, settings: S, workers: Workers, *, curator: bool) -> None:
        super().__init__(settings, workers)
        self.curator = curator

    def reserve_all(self, asks: Sequence[Ask], /, *_after: Stage) -> Stage:
        """Reserve nothing; refuse data that is not marked, unless its curator asks."""
        if not (all(map(self.is_marked, asks)) or self.curator):
            raise Refused(
                "the data is not marked synthetic or public: only its curator may see its exact counts "
                "(--i-am-the-curator)"
            )
        self.out.parent.mkdir(parents=True, exist_ok=True)
        self.out.mkdir(mode=0o700, exist_ok=True)
        self.reserved = ended()
        return self.reserved


def release_truth(settings: S, workers: Workers, *, curator: bool = False) -> Path | None:
    """Release exact counts, marked NOT PRIVATE, under OUT; return None if a run would be skipped.

    The release is open to its owner only, and so is OUT if it is made here.

    Raises Refused if the data is not marked and this is not its curator's request; if the ledger contradicts the mark
    or its absence.
    """
    run, out = settings.directory, Path(settings.out)
    check_out(run, out, settings.folder)
    mark_truth(run, out, settings.folder)
    return _Truth(settings, workers, curator=curator).run()
