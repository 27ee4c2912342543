"""Options that the `das tda` commands share."""

from __future__ import annotations

from typing import Annotated, Literal

from flows.commands.fields import option_of
from flows.execution.top_down_settings import TopDownSettings

# The files that a run reads, and which part of them.
INPUTS = ("data", "geography", "quarters", "totals", "jurisdiction", "states", "products")
JurisdictionOption = Annotated[Literal["us", "pr"], option_of(TopDownSettings, "jurisdiction")]
StateOption = Annotated[list[int] | None, option_of(TopDownSettings, "states")]
