"""What the worker's policy says to the deployments: their variables, and which of them have inputs.

    .venv/bin/python deploy/offer.py variables /etc/das-flows/policy.json >> /etc/das-flows/environment
    set -a; . /etc/das-flows/environment; set +a
    .venv/bin/python deploy/offer.py deployments | xargs .venv/bin/prefect --no-prompt deploy --prefect-file …

The policy is the control, and no place is written twice. Where `one_of` lists several values, the first is of the US,
the last of Puerto Rico.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from flows.execution.policy import ALL, rules_of
from flows.execution.settings import RunSettings
from flows.execution.systems import SYSTEMS

# Each variable of prefect.yaml: a section of the policy, a setting in it, and which of several values.
VARIABLES = {
    "DAS_RUNS_FOLDER": ("all", "runs_folder", 0),
    "DAS_OUT": ("all", "out", 0),
    "DAS_MEMORY": ("all", "cluster.memory_limit", 0),
    "DAS_ACCOUNT": ("detailed-dhca", "account", 0),
    "DAS_PARAMS": ("detailed-dhca", "params", 0),
    "DAS_INPUT_US": ("detailed-dhca", "data", 0),
    "DAS_INPUT_PR": ("detailed-dhca", "data", -1),
    "DAS_DDHCB_ACCOUNT": ("detailed-dhcb", "account", 0),
    "DAS_DDHCB_PARAMS": ("detailed-dhcb", "params", 0),
    "DAS_DDHCB_INPUT_US": ("detailed-dhcb", "data", 0),
    "DAS_DDHCB_INPUT_PR": ("detailed-dhcb", "data", -1),
    "DAS_DDHCB_TOTALS": ("detailed-dhcb", "totals", 0),
    "DAS_TDA_INPUT_US": ("top-down", "data", 0),
    "DAS_TDA_INPUT_PR": ("top-down", "data", -1),
    "DAS_SDHC_CONFIG_INPUT_US": ("s-dhc", "config", 0),
    "DAS_SDHC_CONFIG_INPUT_PR": ("s-dhc", "config", -1),
    "DAS_SDHC_INPUT_US": ("s-dhc", "data", 0),
    "DAS_SDHC_INPUT_PR": ("s-dhc", "data", -1),
    "DAS_BOTTOM_UP_TABLE": ("bottom-up", "table", 0),
    "DAS_BOTTOM_UP_DECLARATION": ("bottom-up", "declaration", 0),
    "DAS_BOTTOM_UP_EPSILON": ("bottom-up", "epsilon", 0),
    "DAS_DECLARED_DATA": ("declared", "data", 0),
    "DAS_DECLARED_DECLARATION": ("declared", "declaration", 0),
}
INPUTS = ("data", "params", "totals", "config", "table", "declaration", "geography")  # settings that name files


def variables(policy: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of the deployments, as far as the policy has their values, in their section or for all."""
    sections = {section for section, _, _ in VARIABLES.values()}
    rules = {section: _rules(policy, section) for section in sections}
    found = {}
    for name, (section, setting, which) in VARIABLES.items():
        if values := rules[section].get(setting):
            found[name] = str(values[which]).partition("/{")[0]  # of OUT the folder
    return found


def _rules(policy: Mapping[str, Any], section: str) -> Mapping[str, Sequence[Any]]:
    """Return the values that runs under a section may have, by setting. Raises ValueError for an unusable policy."""
    kind = RunSettings if section == ALL else SYSTEMS[section].part("settings_class")
    return rules_of(policy, kind, policy.keys() & {section} - {ALL}).values


def offered(deployments: str, known: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of deployments, given prefect.yaml, whose variables are known and whose input files exist."""
    for each in yaml.safe_load(deployments)["deployments"]:
        (settings,) = each["parameters"].values()
        needed = {variable for value in _texts(settings) for variable in re.findall(r"\{\{ \$(\w+) \}\}", value)}
        if needed <= known.keys() and all(
            "://" in place or Path(place).exists()
            for name in INPUTS
            if name in settings
            for place in [re.sub(r"\{\{ \$(\w+) \}\}", lambda found: known[found[1]], settings[name])]
        ):
            yield each["name"]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, str):
        yield value


def main(what: str, policy: str = "") -> None:
    """Print the variables of a policy, or the options with which `prefect deploy` deploys what has inputs."""
    if what == "variables":
        found = variables(json.loads(Path(policy).read_text("utf-8")))
        print("\n".join(f"{name}={shlex.quote(value)}" for name, value in found.items()))
    else:
        text = (Path(__file__).parent / "prefect.yaml").read_text("utf-8")
        print("\n".join(f"--name {name}" for name in offered(text, os.environ)))


if __name__ == "__main__":
    main(*sys.argv[1:])
