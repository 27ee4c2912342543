"""Options that the commands of `das attribute-loss` share: persons, sets of attributes, delta."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Annotated

import typer

from flows.reports.terminal import refusing

ANALYST = "A described person's figures rest on that person's values: for analysts, not for release."
People = Annotated[list[str] | None, typer.Option("--person", help="A person, `key=value, ...`; may be repeated.")]
File = Annotated[Path | None, typer.Option("--people", help="A CSV of persons, its header the same keys.")]
Sets = Annotated[
    list[str] | None, typer.Option("--attributes", help="A set of attributes, `A,B,...`; may be repeated.")
]
Delta = Annotated[str | None, typer.Option(help="Show the epsilon of (epsilon, delta)-DP at this delta, not rho.")]


def attribute_sets(texts: Iterable[str] | None, attributes: Collection[str]) -> dict[str, frozenset[str]]:
    """Return the sets of attributes that were typed, by their labels. Raises Refused."""
    from privacy.analyses.attribute_sets import attributes_of

    with refusing():
        sets = [attributes_of((name.strip() for name in text.split(",")), attributes) for text in texts or ()]
    return {_label(members, attributes): members for members in sets}


def _label(members: frozenset[str], attributes: Collection[str]) -> str:
    return "all" if members == set(attributes) else ", ".join(name for name in attributes if name in members)
