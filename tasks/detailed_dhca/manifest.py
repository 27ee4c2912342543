"""manifest.json: what a release is and how it was made, with nothing exact about persons."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from privacy.accounting.conversions import epsilon
from privacy.noise.laws import DiscreteGaussian, Law
from privacy.noise.randomness import NOISE_SCHEME_VERSION
from tasks.detailed_dhca.budget_check import region_spend
from tasks.detailed_dhca.domain import Queries, load_domain, load_queries
from tasks.detailed_dhca.noise import is_truth
from tasks.detailed_dhca.report import write_report
from tasks.detailed_dhca.suppression import suppression_threshold
from tasks.detailed_dhca.validation import Parameters, Validated, configuration_digest, load_parameters
from tasks.inputs.configuration import REGION_TYPES, Level, Region
from tasks.inputs.geography import load_geography
from tasks.lifecycle.digests import file_digest
from tasks.lifecycle.run_directory import RunDirectory, load_public

MANIFEST = "manifest.json"
DELTA = 1e-10
LIBRARIES = ("numpy", "scipy", "pyarrow", "python-flint", "cryptography")
STATEMENTS = {
    "guarantee": "The noise words come from a cipher (AES-256 in counter mode) keyed by a 256-bit secret of the "
    "operating system, which is deleted with this release: the guarantee is computational.",
    "margins": "Beside each count of the Parquet files stands its margin of error, the smallest m with "
    "P(|noise| > m) <= 0.05 for the noise that was added to the published count, before suppression and clipping. It "
    "is not conditional on publication: suppression biases the small counts that remain upwards.",
    "clipping": "Where negative counts are not allowed each published count is clipped after all sums, so a T1 count "
    "may differ from the sum of its T2 cells.",
}
NOT_PRIVATE = "NOT PRIVATE: these are exact counts, made by das truth. Never publish them."
SYNTHETIC = "SYNTHETIC: made from synthetic data, which describes nobody. No budget was charged."


def write_manifest(
    run: RunDirectory,
    region: Region,
    out: Path,
    published: Mapping[Level, Mapping[str, int]],
    options: Mapping[str, object],
    spine: str,
) -> str:
    """Write OUT/report.html and, over all files that lie in OUT, OUT/manifest.json; returns its digest, the release's.

    `published` holds the number of groups per published detail, `spine` one line about the spine branch.
    """
    parameters = load_parameters(run)
    validated: Validated = load_public(run / "public/validated")
    truth = is_truth(run)
    manifest: dict[str, Any] = {
        "release": "Detailed DHC-A by SafeTab-P",
        "region": region.upper(),
        "run": run.id,
        **({"NOT_PRIVATE": NOT_PRIVATE} if truth else {}),
        **({"SYNTHETIC": SYNTHETIC} if validated.synthetic else {}),
        "spent": None if truth else _spent(parameters, region),
        "levels": {str(level): _level(run, level, published[level]) for level in published},
        "statements": {} if truth else STATEMENTS,
        "options": dict(options),
        "spine": spine,
        "configuration": parameters.configuration.model_dump(mode="json", exclude={"budgets", "thresholds"}),
        "geography": _geography(run, region, validated),
        "coterminous_sets": _coterminous(run, region),
        "parameter_files": parameters.digests,
        "configuration_digest": configuration_digest(parameters.digests, options),
        "noise_scheme": NOISE_SCHEME_VERSION,
        "versions": {
            "das-flows": version("das-flows"),
            "python": platform.python_version(),
            **{name: version(name) for name in LIBRARIES},
        },
    }
    write_report(out, manifest)
    manifest["files"] = {str(path.relative_to(out)): file_digest(path) for path in released_files(out)}
    text = json.dumps(manifest, indent=1, default=str)
    (out / MANIFEST).write_text(text + "\n")
    return release_digest(out)


def released_files(out: Path) -> list[Path]:
    """The files of a release but its manifest, sorted."""
    return sorted(path for path in out.rglob("*") if path.is_file() and path != out / MANIFEST)


def release_digest(out: Path) -> str:
    """The digest of a release: of its manifest, which holds those of all its files."""
    return sha256((out / MANIFEST).read_bytes()).hexdigest()


def is_whole(out: Path) -> bool:
    """True where a folder holds a manifest and every file that it names, unchanged."""
    if not (out / MANIFEST).is_file():
        return False
    named = read_manifest(out)["files"].items()
    return all((out / name).is_file() and file_digest(out / name) == digest for name, digest in named)


def drop_unnamed(out: Path) -> None:
    """Remove the files of a folder that its manifest does not name: what a desktop or a file server leaves about."""
    named = read_manifest(out)["files"]
    for path in released_files(out):
        if str(path.relative_to(out)) not in named:
            path.unlink()


def read_manifest(out: Path) -> dict[str, Any]:
    """The manifest of a release."""
    manifest: dict[str, Any] = json.loads((out / MANIFEST).read_text())
    return manifest


def _spent(parameters: Parameters, region: Region) -> dict[str, Any]:
    spend = region_spend(parameters.configuration, region)
    unit = "rho" if spend.definition == "zcdp" else "epsilon"
    told: dict[str, Any] = {"definition": spend.definition, "unit": unit, "delta": DELTA}
    for neighbours, amount in (("unbounded", spend.unbounded), ("bounded", spend.bounded)):
        told[neighbours] = {unit: str(amount), "decimal": float(amount)}
        told[neighbours]["epsilon_at_delta"] = epsilon(amount, DELTA) if unit == "rho" else float(amount)
    return told


def _level(run: RunDirectory, level: Level, published: Mapping[str, int]) -> dict[str, Any]:
    domain = load_domain(run, level)
    configuration = load_parameters(run).configuration
    told: dict[str, Any] = {
        "regions": len(domain.region_ids),
        "iterations": len(domain.iterations),
        "groups": domain.groups,
        "thresholds": configuration.thresholds[level],
        "suppressed_up_to": suppression_threshold(run, level),
        "groups_published": dict(published),
    }
    if not is_truth(run):
        told |= _noise(load_queries(run, level))
    return told


def _noise(queries: Queries) -> dict[str, Any]:
    return {
        "stability": queries.stability,
        "queries": {
            name: {"budget": str(getattr(queries.budgets, name)), **_law(queries.law(name))}
            for name in ("total_only", "stage_1", "stage_2")
        },
    }


def _law(law: Law) -> dict[str, str | float]:
    if isinstance(law, DiscreteGaussian):
        return {"law": "discrete Gaussian", "sigma_squared": str(law.sigma_squared), "variance": law.variance()}
    return {"law": "two-sided geometric", "scale": str(law.scale), "variance": law.variance()}


def _geography(run: RunDirectory, region: Region, validated: Validated) -> dict[str, Any]:
    return {
        "states": load_parameters(run).configuration.states(region),
        "blocks": validated.blocks,
        "GRF-C": validated.geography_digest,
    }


def _coterminous(run: RunDirectory, region: Region) -> list[list[str]]:
    """The sets of coterminous regions; where a group of a set was published, the first of its
    regions that published it is the donor."""
    ids = load_geography(run / "public/geography").region_ids
    members: dict[int, list[str]] = {}
    sets = load_public(run / "public/coterminous")
    for region_type in REGION_TYPES[region]:
        for number, of in enumerate(sets.get(region_type, ())):
            if of >= 0:
                members.setdefault(int(of), []).append(f"{region_type} {ids[region_type][number]}")
    return [members[number] for number in sorted(members)]
