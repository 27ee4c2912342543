"""The options that change the shares of persons, or ask for a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer


def _several(help: str) -> Any:
    return typer.Option(help=f"{help}; may be repeated.")


@dataclass(frozen=True)
class Search:
    """Options that change, or search for, the shares of persons."""

    level: Annotated[list[str] | None, _several("`LEVEL=SHARE` of the persons' budget")] = None
    query: Annotated[list[str] | None, _several("`LEVEL: QUERY=SHARE` of the level's budget")] = None
    solve: Annotated[str | None, typer.Option(metavar="TARGET", help="Find the least budget that meets it.")] = None
    best: Annotated[bool, typer.Option("--best", help="Find the shares with the smallest errors.")] = False
    aim: Annotated[list[str] | None, _several("For --best, `LEVEL: QUANTITY[=WEIGHT]`; default all")] = None
    limit: Annotated[list[str] | None, _several("For --best, `LEVEL: QUANTITY <= RATIO` to the start's error")] = None
    keep: Annotated[list[str] | None, _several("For --best, a level that keeps its share")] = None
    pareto: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="AIM AIM", help="Find the best shares between two aims, `LEVEL: QUANTITY`."),
    ] = None
