"""The workers of a run: a stage maps one function over many small arguments and waits for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from distributed import Client, as_completed

from tasks.confidential import guard
from tasks.errors import Failed, Refused
from tasks.run_directory import RunDirectory


class Progress(Protocol):
    """Told of every finished piece of a stage; pieces are partitions and files, never persons."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """`done` of `total` pieces of a stage are finished."""


def silent(stage: str, done: int, total: int) -> None:
    """Progress for a run that nobody watches."""


class Workers:
    """Dask workers that see the run's confidential directory by the same path."""

    def __init__(self, client: Client, progress: Progress = silent) -> None:
        self.client = client
        self.progress = progress

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
            with stage and rule, where a piece fails or the cluster is lost; the other pieces are given up.
        Refused
            as the function raised it.
        """
        calls = list(arguments)
        futures = [self.client.submit(guard, stage, run, function, *call, pure=False) for call in calls]
        place = {future: number for number, future in enumerate(futures)}
        results: list[Any] = [None] * len(calls)
        self.progress(stage, 0, len(calls))
        try:
            for done, (future, result) in enumerate(as_completed(futures, loop=self.client.loop, with_results=True), start=1):
                results[place[future]] = result
                self.progress(stage, done, len(calls))
        except (Refused, Failed):
            raise
        except Exception as error:  # KilledWorker, CancelledError, a broken connection: nothing of ours in it
            lost = type(error).__name__
        else:
            return results
        finally:
            self.client.cancel([future for future in futures if not future.done()])
        raise Failed(f"{stage}: the workers were lost ({lost})")
