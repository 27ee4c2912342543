"""`das ddhcb validate`: check the input of a run without spending anything."""

from __future__ import annotations

from typing import Annotated

from flows.commands.fields import Chosen, Settings, with_options
from flows.commands.options import WorkOptions
from flows.commands.safetab import validate_all
from flows.execution.safetab_settings import DetailedDhcbSettings

INPUTS = ("params", "data", "totals")


@with_options
def validate(inputs: Annotated[Chosen, Settings(DetailedDhcbSettings, INPUTS)], options: WorkOptions) -> None:
    """Check every row of households, geography and totals; exit with 1 if a run would be refused.

    The findings are shown without the values that broke a rule. The report with the values stays in the confidential
    directory that is named below the table.

    **Example:** `das ddhcb validate params/ data/ --totals dhc-a/us`
    """
    validate_all(DetailedDhcbSettings, inputs, options)
