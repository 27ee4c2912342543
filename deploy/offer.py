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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from flows.execution.policy import rules_of
from flows.execution.systems import SYSTEMS

VARIABLE = r"\{\{ \$(\w+) \}\}"  # in prefect.yaml
INPUTS = ("data", "params", "totals", "config", "table", "declaration", "geography")  # settings that name files


def variables(policy: Mapping[str, Any], deployments: str) -> dict[str, str]:
    """Return the variables of the deployments in prefect.yaml, as far as the policy has the settings that they fill."""
    found: dict[str, str] = {}
    for each in yaml.safe_load(deployments)["deployments"]:
        section, *more = each["tags"]
        if section not in SYSTEMS:
            continue
        rules = rules_of(policy, SYSTEMS[section].part("settings_class"), policy.keys() & {section}).values
        for setting, text in _texts(*each["parameters"].values()):
            match = re.fullmatch(VARIABLE + r"(/\{.*)?", text)  # of OUT the folder
            if match and (values := rules.get(setting)):
                found.setdefault(match[1], str(values[-1 if "pr" in more else 0]).partition("/{")[0])
    return found


def offered(deployments: str, known: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of deployments, given prefect.yaml, whose variables are known and whose input files exist."""
    for each in yaml.safe_load(deployments)["deployments"]:
        (settings,) = each["parameters"].values()
        needed = {variable for _, text in _texts(settings) for variable in re.findall(VARIABLE, text)}
        if needed <= known.keys() and all(
            "://" in place or Path(place).exists()
            for name in INPUTS
            if name in settings
            for place in [re.sub(VARIABLE, lambda found: known[found[1]], settings[name])]
        ):
            yield each["name"]


def _texts(settings: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, str]]:
    """Yield the settings that are texts, by name; those of the cluster as `cluster.memory_limit`."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _texts(value, f"{name}.")
        elif isinstance(value, str):
            yield within + name, value


def main(what: str, policy: str = "") -> None:
    """Print the variables of a policy, or the options with which `prefect deploy` deploys what has inputs."""
    text = (Path(__file__).parent / "prefect.yaml").read_text("utf-8")
    if what == "variables":
        found = variables(json.loads(Path(policy).read_text("utf-8")), text)
        print("\n".join(f"{name}={shlex.quote(value)}" for name, value in found.items()))
    else:
        print("\n".join(f"--name {name}" for name in offered(text, os.environ)))


if __name__ == "__main__":
    main(*sys.argv[1:])
