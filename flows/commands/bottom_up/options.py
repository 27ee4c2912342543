"""Options and arguments that commands of `das bottom-up` share."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

import typer

TableArgument = Annotated[str | None, typer.Argument(help="The table: text or Parquet (path or URL).")]
DomainArgument = Annotated[Path | None, typer.Argument(help="The declared domain (JSON): factors, levels, states.")]
Totals = Annotated[Path | None, typer.Option("--calibrate", help="Published totals to calibrate to (CSV).")]
Method = Annotated[Literal["additive", "ratio", "nonnegative"], typer.Option(help="How to calibrate.")]
Clip = Annotated[bool, typer.Option("--clip", help="Publish no negative count (biases counts upwards).")]
Epsilons = Annotated[list[str] | None, typer.Option("--epsilon", help="A budget, exact; may be repeated.")]
STANDARD = ("0.01", "0.05", "0.1", "0.25", "0.5", "1", "2", "4", "8")


def budgets(texts: Sequence[str] | None) -> list[Fraction]:
    """Return the budgets that were typed, the slides' where none was. Raises Refused."""
    from flows.reports.figures import fraction

    return [fraction(text, "--epsilon") for text in texts or STANDARD]


def short(value: Fraction) -> str:
    """Return a budget as tables show it."""
    return f"{float(value):g}"
