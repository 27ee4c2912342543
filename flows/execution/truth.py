"""The stages of a system with the noise switched off: for `das truth` and `das tda truth`. Not private."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flows.execution.runner import Done, InProcess, S, Stage, is_marked
from tasks.lifecycle.commit import check_out
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.reservation import Input
from tasks.lifecycle.truth import mark_truth
from tasks.lifecycle.workers import Workers


class _Truth(InProcess[S]):
    """Runs the stages in a directory that is marked as a truth's, so that none of them draws noise."""

    def __init__(self, settings: S, workers: Workers, *, curator: bool) -> None:
        super().__init__(settings, workers)
        self.curator = curator

    def reserve(self, _function: Callable[..., Any], /, *_after: Stage, given: Input, **_arguments: Any) -> Stage:
        """Reserve nothing; refuse data that is not marked, unless its curator asks."""
        if not (is_marked(self.directory.id, self.settings.charging.ledger, given) or self.curator):
            raise Refused(
                "the data is not marked synthetic or public: only its curator may see its exact counts "
                "(--i-am-the-curator)"
            )
        self.out.parent.mkdir(parents=True, exist_ok=True)
        self.out.mkdir(mode=0o700, exist_ok=True)
        return Done()


def release_truth(settings: S, workers: Workers, *, curator: bool = False) -> Path | None:
    """Release exact counts, marked NOT PRIVATE, under OUT; returns None where a run would be skipped.

    The release is open to its owner only, as is OUT where it is made here.

    Raises Refused where the data is not marked and its curator does not ask; where the ledger contradicts the mark or
    its absence.
    """
    run, out = settings.directory, Path(settings.out)
    check_out(run, out, settings.folder)
    mark_truth(run, out, settings.folder)
    return _Truth(settings, workers, curator=curator).run()
