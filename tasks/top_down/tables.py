"""The input files of a TopDown run, and the digests of the public ones."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.inputs.blocks.files import input_digests
from tasks.inputs.files import digest_file
from tasks.top_down.run_plan import ProductName


@dataclass(frozen=True)
class Tables:
    """The paths or URLs of the input.

    persons, units: None where the product is not released. geography: as `das spine` reads it. quarters, totals: the
    declared invariants: living quarters by block, total population by state. mark: of SYNTHETIC.json, if there is one.
    """

    persons: str | None
    units: str | None
    geography: str
    quarters: str
    totals: str
    mark: str

    def records(self, product: ProductName) -> str | None:
        """Return the path of the records of a product."""
        return self.persons if product == "persons" else self.units


def file_name(path: str) -> str:
    """Return the name of a file or folder, of its path or URL."""
    return path.rstrip("/").rsplit("/", 1)[-1]


def public_digests(tables: Tables) -> dict[str, str]:
    """Return the digests of the public files by name."""
    digests = input_digests(tables.geography)
    return digests | {file_name(path): digest_file(path) for path in (tables.quarters, tables.totals)}
