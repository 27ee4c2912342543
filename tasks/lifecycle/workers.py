"""The workers of a run: a stage maps one function over many small arguments and waits for all of them."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from tasks.errors import Failed, Refused
from tasks.lifecycle.confidential import guard
from tasks.lifecycle.process import code_digest
from tasks.lifecycle.run_directory import RunDirectory

if TYPE_CHECKING:  # a command that needs no workers does not wait for Dask
    from distributed import Client, Future, Worker

ASK_EACH = 5.0  # seconds without news after which a stage asks whether there are workers
PATIENCE = 120.0  # seconds without a worker after which the cluster counts as lost, by default
SAME_CODE = "install the same das-flows everywhere"
Progress = Callable[[str, int, int], None]  # stage, pieces done, all pieces; never persons
Paths = tuple[tuple[str, int], ...]  # each with the access it needs: os.R_OK, or os.R_OK | os.W_OK


class Workers:
    """Dask workers that see the run's confidential directory by the same path.

    paths: paths that every worker must see, if workers are on other machines; checked before a worker's first piece.
    patience: seconds without a worker after which the cluster counts as lost.
    """

    def __init__(
        self, client: Client, progress: Progress = lambda *_: None, *, paths: Paths = (), patience: float = PATIENCE
    ) -> None:
        self.client = client
        self.progress = progress
        self.paths = paths
        self.patience = patience

    @property
    def count(self) -> int:
        """The number of pieces that run at once."""
        threads: dict[str, int] = self.client.nthreads()
        return max(1, sum(threads.values()))

    def map(
        self, stage: str, run: RunDirectory, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]
    ) -> list[Any]:
        """Call `function(run, *argument)` for each argument on the workers; results in the order of the arguments.

        Arguments are paths and indices, results are handles or public numbers: both cross the wire and may be logged.

        Raises
        ------
        Failed
            with stage and rule, if a piece fails or the cluster is lost.
        Refused
            as the function raised it.
        Either is raised only after every other piece has ended, so that a retry meets no piece of an earlier try.
        """
        results, problems = self.outcomes(stage, guard, [(stage, run, function, *argument) for argument in arguments])
        for kind in (Refused, Failed):
            for problem in problems:
                if isinstance(problem, kind):
                    raise problem
        if problems:
            raise lost(stage, problems[0])
        return results

    def outcomes(
        self, stage: str, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]
    ) -> tuple[list[Any], list[BaseException]]:
        """Return the results of all calls, and the exceptions of those that failed."""
        results: dict[Any, Any] = {}
        problems: list[BaseException] = []
        self.progress(stage, 0, len(arguments))
        try:
            results = {self.submit(function, *argument): None for argument in arguments}
            for done, (future, result, problem) in enumerate(ended(self.client, [*results], self.patience), start=1):
                results[future] = result
                problems += [problem] if problem else []
                self.progress(stage, done, len(arguments))
        except Exception as error:  # the client lost its scheduler
            problems.append(lost(stage, error))
        return [*results.values()], problems

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Have a worker call a function; the call fails on a worker that `check` would refuse."""
        return self.client.submit(on_worker, code_digest(), self.paths, function, *arguments, pure=False)

    def check(self) -> None:
        """Check the code and the paths of every worker that is connected now, even before its first piece.

        Raises Failed with the worker, its host, and what it lacks.
        """
        found = self.client.run(check_worker, code_digest(), self.paths, on_error="return")
        for address, problem in found.items():
            if isinstance(problem, Failed):
                raise Failed(f"cluster: {problem}")
            if problem is not None:  # Dask wraps the error, and puts its type in the text
                how = f"could not look for its code ({problem!s:.200})"
                raise Failed(f"cluster: the worker {address} {how}: {SAME_CODE}, then resume")


def map_public(
    workers: Workers | None, stage: str, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]
) -> list[Any]:
    """Call `function(*argument)` for each argument: on workers or, without any, in this process.

    Of public data: an exception is raised as it is, after all calls have ended.
    """
    if workers is None:
        return [function(*argument) for argument in arguments]
    results, problems = workers.outcomes(stage, function, arguments)
    if problems:
        raise problems[0]
    return results


def check_worker(code: str, paths: Paths, dask_worker: Worker | None = None) -> None:
    """Check on a worker that its code has this digest and that it sees these paths. Raises Failed, which names it."""
    try:
        if code_digest() != code:
            raise Failed(f"runs different code: {SAME_CODE}")
        _see(paths)
    except Failed as lacking:
        from distributed import get_worker

        worker = dask_worker or get_worker()
        problem = f"the worker {worker.address} on host {socket.gethostname()} {lacking}, then resume"
    else:
        return
    raise Failed(problem)  # outside the handler, so that it has no other error as its context


@cache  # each result is kept: a network file system can be slow to answer
def _see(paths: Paths) -> None:
    for path, mode in paths:
        if not os.access(path, mode):
            fault = "may not write" if os.access(path, os.R_OK) else "does not see"
            raise Failed(f"{fault} {path}: mount the same file system there under the same path, for the same user")


def on_worker(code: str, paths: Paths, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function on a worker that has this code and sees these paths. Raises Failed on any other."""
    check_worker(code, paths)
    return function(*arguments)


def lost(stage: str, problem: BaseException) -> Failed:
    """Return the failure of a stage whose workers were lost, from an error of Dask's or of the system's."""
    from distributed import KilledWorker

    if isinstance(problem, KilledWorker):
        count = problem.allowed_failures + 1
        return Failed(f"{stage}: {count} workers died at the same piece; --memory-limit gives each more memory")
    return Failed(f"{stage}: the workers did not return all pieces ({type(problem).__name__})")


def ended(
    client: Client, futures: Sequence[Future[Any]], patience: float
) -> Iterator[tuple[Future[Any], Any, BaseException | None]]:
    """Yield futures of `Workers.submit` as they end, each with its result and its exception.

    A client that lost its scheduler, or a scheduler that lost its workers, never finishes its futures, so this asks
    from time to time. Raises ConnectionError if the cluster is lost, also after `patience` seconds without a worker.
    """
    from distributed import as_completed

    done = as_completed(futures, loop=client.loop, with_results=True, raise_errors=False)
    asked = alive = time.monotonic()
    while not done.is_empty():
        now = time.monotonic()
        if done.has_ready():
            future, result = next(done)
            if future.status == "finished":
                yield future, result, None
            else:  # an error comes as from sys.exc_info, a cancelled future as the exception itself
                yield future, None, result[1] if future.status == "error" else result
            alive = now
        elif client.status == "closed":
            raise ConnectionError("the scheduler is gone")
        elif now - asked > ASK_EACH:
            asked = now
            alive = now if client.nthreads() else alive
            if now - alive > patience:
                raise ConnectionError("no worker is left")
        else:
            with done.thread_condition:
                done.thread_condition.wait(0.1)
