"""`das validate`: check the input of a run without spending anything."""

from __future__ import annotations

from typing import Annotated

from flows.commands.fields import Chosen, Settings, with_options
from flows.commands.options import WorkOptions
from flows.commands.safetab import validate_all
from flows.execution.safetab_settings import DetailedDhcaSettings

INPUTS = ("params", "data")


@with_options
def validate(inputs: Annotated[Chosen, Settings(DetailedDhcaSettings, INPUTS)], options: WorkOptions) -> None:
    """Check every row of every file of a run's input; exit with 1 if a run would be refused.

    The findings are shown without the values that broke a rule. The report with the values stays in the confidential
    directory that is named below the table.

    **Example:** `das validate params/ data/`
    """
    validate_all(DetailedDhcaSettings, inputs, options)
