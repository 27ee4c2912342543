"""Options and arguments that commands of `das bottom-up` share."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated

import typer

Epsilons = Annotated[list[str] | None, typer.Option("--epsilon", help="A budget, exact; may be repeated.")]
STANDARD = ("0.01", "0.05", "0.1", "0.25", "0.5", "1", "2", "4", "8")


def budgets(texts: Sequence[str] | None) -> list[Fraction]:
    """Return the budgets that were typed, the slides' where none was. Raises Refused."""
    from flows.reports.figures import fraction

    return [fraction(text, "--epsilon") for text in texts or STANDARD]


def short(value: Fraction) -> str:
    """Return a budget as tables show it."""
    return f"{float(value):g}"
