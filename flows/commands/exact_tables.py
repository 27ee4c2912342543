"""Release the exact tables of runs, for the commands `truth` of every system. Not private."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from flows.commands.options import ExactOptions
from flows.reports.terminal import err, labelled, show
from tasks.lifecycle.new_folder import check_empty

if TYPE_CHECKING:
    from flows.execution.settings import RunSettings

S = TypeVar("S", bound="RunSettings")


def release_all(truths: Sequence[S], options: ExactOptions, *, curator: bool) -> list[Path | None]:
    """Release the exact tables of each run into the same empty OUT; return where they are, None for one skipped."""
    from flows.execution.runner import release_truth

    check_empty(Path(truths[0].out))
    places = []
    for settings in truths:
        with options.leaving_nothing(settings.directory, f"Truth of {settings.folder.upper()}") as workers:
            places.append(release_truth(settings, workers, curator=curator))
    err.print(labelled("NOT PRIVATE:", "these are exact counts. Never publish them."))
    return places


def release_one(settings: RunSettings, options: ExactOptions, *, curator: bool) -> None:
    """Release the exact tables of one run, and show where they are."""
    (place,) = release_all([settings], options, curator=curator)
    show({"NOT_PRIVATE": True, "release": place}, lambda: str(place), as_json=options.as_json)
