"""The policy of a worker: settings that whoever starts a run through Prefect's API must not choose.

DAS_POLICY names a JSON file of settings by name. They hold for every run, those under a flow's own name for it alone (a
spine, which charges nothing, is under its own and the common `cluster`):

    {"ledger": "/srv/confidential/ledger.sqlite", "approval": true, "cluster": {"cluster_class": null},
     "detailed-dhca": {"data": "/srv/census/data"}}

A setting that the caller leaves out gets the policy's value; another value is refused. Without DAS_POLICY, as for `das`
on the command line, settings stay as they are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from flows.execution.settings import RunSettings
from flows.execution.systems import SYSTEMS
from tasks.lifecycle.errors import Refused

POLICY = "DAS_POLICY"
SPINE = "geographic-spine"

M = TypeVar("M", bound=BaseModel)


def under_policy(settings: M, flow: str) -> M:
    """Return the settings with what the worker's policy fixes for a flow; "" for what all flows have in common.

    Raises Refused where they hold another value, or the policy cannot be read or is none.
    """
    path = os.environ.get(POLICY)
    if not path:
        return settings
    try:
        with open(path) as file:
            policy = json.load(file)
        own, fields = policy.get(flow, {}), type(settings).model_fields.keys()
        common = {name: value for name, value in policy.items() if name not in {*SYSTEMS, SPINE}}
        if unknown := (common.keys() - RunSettings.model_fields.keys()) | (own.keys() - fields):
            raise ValueError(f"there is no setting {', '.join(sorted(unknown))}")
        shared = {} if flow == SPINE else {name: common[name] for name in common.keys() & fields}
        return _with(settings, shared | own)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise Refused(f"the policy of this worker, {path}, cannot be used: {why}") from None


def _with(settings: M, fixed: Mapping[str, Any]) -> M:
    """Return the settings with fixed values, which may be parts of one of them. Raises Refused, ValueError."""
    values: dict[str, Any] = {}
    for name, value in fixed.items():
        now = getattr(settings, name)
        values[name] = _with(now, value) if isinstance(now, BaseModel) else value
    changed = type(settings).model_validate({**dict(settings), **values})
    for name in sorted(values.keys() & settings.model_fields_set):
        if getattr(settings, name) != getattr(changed, name) and not isinstance(getattr(settings, name), BaseModel):
            given, right = getattr(settings, name), getattr(changed, name)
            raise Refused(f"{name} is {given!r}, and the policy of this worker fixes it at {right!r}: leave it out")
    return changed
