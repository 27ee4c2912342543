"""The files of a TopDown run, and the digests of those that are public."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.inputs.blocks.files import input_digests
from tasks.inputs.files import digest_file
from tasks.top_down.run_plan import ProductName


@dataclass(frozen=True)
class Tables:
    """Where the inputs lie: paths or URLs.

    persons, units: None where the product is not released. geography: as `das spine` reads it. quarters, totals: the
    declared invariants: living quarters by block, total population by state. mark: where SYNTHETIC.json would be.
    """

    persons: str | None
    units: str | None
    geography: str
    quarters: str
    totals: str
    mark: str

    def records(self, product: ProductName) -> str | None:
        """The records of a product."""
        return self.persons if product == "persons" else self.units


def public_digests(tables: Tables) -> dict[str, str]:
    """The digests of the public files, by name."""
    digests = input_digests(tables.geography)
    return digests | {path.rsplit("/", 1)[-1]: digest_file(path) for path in (tables.quarters, tables.totals)}
