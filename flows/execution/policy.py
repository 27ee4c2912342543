"""The policy of a worker: which settings a caller of Prefect's API may choose, and which are fixed.

DAS_POLICY names a JSON file with a section for each flow that may be started. The section "all" applies to every flow
that has the setting; the sections of its system and its own apply to a dry run.

    {"all": {"fixed": {"ledger": "/srv/confidential/ledger.sqlite", "cluster.memory_limit": "6GiB"}},
     "detailed-dhca": {"may_set": ["jurisdiction"], "one_of": {"data": ["/srv/census/us", "/srv/census/pr"]}},
     "dry-run": {}}

A caller may choose the settings in `may_set`, and among the values of `one_of`. Any other setting has its `fixed` value
or, without one, its default; another value is refused. Without DAS_POLICY, as for `das` on the command line, settings
are not restricted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from flows.execution.settings import ClusterSettings, RunSettings
from flows.execution.systems import SYSTEMS
from spine.fault_words import first_fault
from tasks.errors import Refused

POLICY = "DAS_POLICY"
ALL, SPINE, DRY_RUN = "all", "geographic-spine", "dry-run"
CLUSTER = "cluster"  # the setting with parts

M = TypeVar("M", bound=BaseModel)


@dataclass
class Rules:
    """The settings that a caller may set, and the allowed values of other settings by name."""

    may_set: set[str] = field(default_factory=set)
    values: dict[str, Sequence[Any]] = field(default_factory=dict)

    def add(self, section: Mapping[str, Any], names: set[str], known: set[str]) -> None:
        """Add a section of the policy, as far as it is about the settings `names`; `known`: names that are allowed.

        Raises ValueError for a section that cannot be used.
        """
        if unknown := section.keys() - {"may_set", "fixed", "one_of"}:
            raise ValueError(f"there is no {', '.join(sorted(unknown))}: write may_set, fixed and one_of")
        may_set, fixed, one_of = {*section.get("may_set", ())}, section.get("fixed", {}), section.get("one_of", {})
        if unknown := (may_set | fixed.keys() | one_of.keys()) - known:
            raise ValueError(f"there is no setting {', '.join(sorted(unknown))}")
        if empty := [name for name, values in one_of.items() if not (isinstance(values, list) and values)]:
            raise ValueError(f"one_of lists no values of {', '.join(empty)}")
        self.may_set |= may_set & names
        values = {name: [value] for name, value in fixed.items()}
        for name, those in (*values.items(), *one_of.items()):
            if name in names:
                if name in self.values:
                    raise ValueError(f"{name} is there twice")
                self.values[name] = those
        if both := self.may_set & self.values.keys():
            raise ValueError(f"{', '.join(sorted(both))} is fixed and may be set")


def under_policy(settings: M, *flows: str) -> M:
    """Return the settings of a flow run, with the values that the worker's policy fixes.

    flows: the names of the sections that apply: that of its flow; for a dry run, that of its system first.

    Raises Refused if the caller may not choose a value in the settings, if the policy does not name the flow, or if the
    policy cannot be read or used.
    """
    path = os.environ.get(POLICY)
    if path is None:
        return settings
    try:
        with open(path, encoding="utf-8") as file:
            policy = json.load(file)
        if unknown := policy.keys() - {ALL, SPINE, DRY_RUN, *SYSTEMS}:
            raise ValueError(f"there is no flow {', '.join(sorted(unknown))}")
        if missing := [name for name in flows if name not in policy]:
            raise Refused(f"the policy of this worker has no section {missing[0]}: that flow cannot be started")
        return _restricted(settings, rules_of(policy, type(settings), flows))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        why = first_fault(error) if isinstance(error, ValidationError) else str(error)
        if isinstance(error, TypeError | AttributeError):
            why = "it is an object of sections, each an object of may_set (a list), fixed and one_of (objects)"
        raise Refused(f"the policy of this worker, {path}, cannot be used: {why}") from None


def rules_of(policy: Mapping[str, Any], kind: type[BaseModel], sections: Iterable[str]) -> Rules:
    """Return the rules for settings of a kind: those for all flows, and those of sections.

    Raises ValueError for a policy that cannot be used.
    """
    rules, names = Rules(), {*setting_names(kind)}
    rules.add(policy.get(ALL, {}), names, {*setting_names(RunSettings)})
    for section in sections:
        rules.add(policy[section], names, names)
    return rules


def setting_names(kind: type[BaseModel]) -> Iterator[str]:
    """Yield the names of settings; for the cluster the names of its parts, such as `cluster.workers`."""
    for name in kind.model_fields:
        yield from (f"{CLUSTER}.{part}" for part in ClusterSettings.model_fields) if name == CLUSTER else (name,)


def _restricted(settings: M, rules: Rules, prefix: str = "") -> M:
    """Return the settings under rules. Raises Refused for a value that the caller may not choose; ValueError."""
    changes: dict[str, Any] = {}
    for name, about in type(settings).model_fields.items():
        full, given = prefix + name, getattr(settings, name)
        if name == CLUSTER:
            changes[name] = given and _restricted(given, rules, f"{CLUSTER}.")
        elif full not in rules.may_set:
            default = [] if about.is_required() else [about.get_default(call_default_factory=True)]
            tried = ({**dict(settings), name: value} for value in rules.values.get(full, default))
            allowed = [getattr(type(settings).model_validate(each), name) for each in tried]
            if name in settings.model_fields_set and given not in allowed:
                raise Refused(f"{full} is {given!r}, and the policy of this worker {_allowed_words(allowed)}")
            changes[name] = given if name in settings.model_fields_set else allowed[0]
    return settings.model_copy(update=changes)


def _allowed_words(allowed: Sequence[Any]) -> str:
    if not allowed:
        return "neither fixes it nor lets a caller set it"
    if len(allowed) == 1:
        return f"fixes it at {allowed[0]!r}: leave it out"
    return f"allows only {' or '.join(map(repr, allowed))}"
