"""The report of a spine: its charts follow in the next commit."""

from __future__ import annotations

from typing import Any


def county_of_interest(paths: Any, plan: Any) -> str | None:
    """The county to draw."""
    return None


def write_report(*of: Any) -> None:
    """Write spine.html."""
