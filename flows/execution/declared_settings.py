"""The settings of a run of the TopDown Algorithm by a declaration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from flows.execution.option import Argument, Option
from flows.execution.settings import Location, RunSettings


def _declaration(name: str) -> str:
    """Make the path of a file absolute; leave a URL and the name of a shipped declaration as they are."""
    is_file = "/" in name or name.endswith((".toml", ".json")) or Path(name).exists()
    return str(Path(name).absolute()) if is_file and "://" not in name else name


class DeclaredSettings(RunSettings):
    """What one run of a declaration reads, writes and may spend."""

    SYSTEM = "declared"

    data: Annotated[Location, Argument("DATA")] = Field(description="Records: text or Parquet (path or URL).")
    declaration: Annotated[str, AfterValidator(_declaration), Option()] = Field(
        description="The declaration of hierarchy, table and budget: a file, or the name of a shipped one."
    )

    @property
    def folder(self) -> str:
        """The folder of OUT that the release goes to."""
        return "declared"

    @property
    def marks(self) -> str:
        """The folder of the records, where their mark is."""
        return self.data.rpartition("/")[0]

    def configuration_digest(self) -> str:
        """Return the digest of the declaration and its public files. Raises Refused."""
        from tasks.top_down.declared.public_tables import read_declared

        return read_declared(self.declaration, self.directory)[0].digest()
