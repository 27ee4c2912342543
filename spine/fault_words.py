"""The faults that pydantic finds in files, settings and options, in plain words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError


def first_fault(error: ValidationError) -> str:
    """Return the first fault of an error: its key, if any, and what is wrong."""
    fault = error.errors()[0]
    return ": ".join(filter(None, (".".join(map(str, fault["loc"])), fault_words(fault))))


def fault_words(fault: Mapping[str, Any]) -> str:
    """Return what is wrong with a value. Pydantic's sentences begin with its type; these begin with the value."""
    if fault["type"] in ("missing", "extra_forbidden"):
        return "it is missing" if fault["type"] == "missing" else "there is no such key"
    if fault["type"] == "value_error":
        return str(fault["msg"]).removeprefix("Value error, ")
    value = fault["input"]
    named = f"{repr(value) if isinstance(value, str) else str(value):.50}"
    return re.sub("^[A-Z][a-z]+(?= should)", lambda _: named, fault["msg"]).partition(", unable to")[0]
