"""`das truth`: exact tables, for synthetic data or a curator's eyes."""

from __future__ import annotations

from typing import Annotated

from flows.commands.fields import Chosen, Settings, option_of, with_options
from flows.commands.options import Curator, ExactOptions
from flows.commands.safetab import release_truths
from flows.execution.safetab_settings import DetailedDhcaSettings


@with_options
def truth(
    chosen: Annotated[Chosen, Settings(DetailedDhcaSettings, ("params", "data", "out"))],
    curator: Curator = False,
    coterminous: Annotated[bool, option_of(DetailedDhcaSettings, "coterminous")] = False,
    *,
    options: ExactOptions,
) -> None:
    """Write the release that a run would give with its noise switched off. NOT PRIVATE: only its owner may read it.

    If the command is killed, `das runs discard ID` removes what it had written.

    **Example:** `das truth params/ data/ truth/`
    """
    chosen |= {"coterminous": coterminous, "spine": False}
    release_truths(DetailedDhcaSettings, chosen, options, curator=curator)
