"""The systems whose runs have a directory, by their settings: what lists, resumes or discards a run of any of them."""

from __future__ import annotations

from flows.execution.bottom_up_settings import BottomUpSettings
from flows.execution.detailed_dhca_settings import DetailedDhcaSettings
from flows.execution.settings import RunSettings
from flows.execution.top_down_settings import TopDownSettings
from tasks.lifecycle.run_directory import RunDirectory

SYSTEMS: tuple[type[RunSettings], ...] = (DetailedDhcaSettings, BottomUpSettings, TopDownSettings)


def load_settings(run: RunDirectory) -> RunSettings | None:
    """Return the settings of a run of whatever system; None for a validation or a truth, which cannot be resumed."""
    return next((settings for system in SYSTEMS if (settings := system.load(run))), None)
