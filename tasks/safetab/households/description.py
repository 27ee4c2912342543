"""What the tables of a Detailed DHC-B release are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.releases.description import Description
from tasks.safetab.description import describe
from tasks.safetab.households.tables import T3, T4


def description(manifest: Mapping[str, Any]) -> Description:
    """Return the description of a release: what its tables are, and the laws of their noise."""
    return describe(manifest, T3.files | T4.files, "householders")
