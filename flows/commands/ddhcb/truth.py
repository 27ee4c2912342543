"""`das ddhcb truth`: exact tables, for synthetic data or a curator's eyes."""

from __future__ import annotations

from typing import Annotated

from flows.commands.ddhcb.validate import INPUTS
from flows.commands.fields import Chosen, Settings, with_options
from flows.commands.options import Curator, ExactOptions
from flows.commands.safetab import release_truths
from flows.execution.safetab_settings import DetailedDhcbSettings


@with_options
def truth(
    chosen: Annotated[Chosen, Settings(DetailedDhcbSettings, (*INPUTS, "out", "coterminous"))],
    curator: Curator = False,
    *,
    options: ExactOptions,
) -> None:
    """Write the release that a run would give with its noise switched off. NOT PRIVATE: only its owner may read it.

    It has the same groups, tables and sums. If the command is killed, `das runs discard ID` removes what it wrote.

    **Example:** `das ddhcb truth params/ data/ truth/ --totals dhc-a/us`
    """
    release_truths(DetailedDhcbSettings, chosen, options, curator=curator)
