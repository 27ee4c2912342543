"""What the commands of the S-DHC share: settings from config.json, which says the jurisdiction."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.commands.options import LedgerOptions

if TYPE_CHECKING:
    from flows.execution.s_dhc_settings import SDhcSettings

INPUTS = ("config", "data")


def jurisdiction_of(config: str) -> str:
    """Return the jurisdiction that a config.json is of. Raises Refused."""
    from tasks.s_dhc.configuration import read_configuration

    return read_configuration(Path(config)).jurisdiction


def new_settings(options: LedgerOptions, run_id: str, chosen: Mapping[str, Any]) -> SDhcSettings:
    """Return the settings of a run, of the jurisdiction that its config.json is of. Raises Refused."""
    from flows.execution.s_dhc_settings import SDhcSettings

    return options.new_settings(SDhcSettings, run_id, {**chosen, "jurisdiction": jurisdiction_of(chosen["config"])})
