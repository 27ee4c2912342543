"""The wheel, without the checkout: it has all of its packages' files, and commands and deployments work from it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

import pandas as pd
import pytest
from numba.core.caching import _CacheLocator
from wheel import ROOT, build

from tasks.kernels import FOLDER_VARIABLE
from tasks.lifecycle.process import ENVIRONMENT_FOLDER

PACKAGES = ("flows", "tasks", "privacy", "spine")


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def environment(distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment with the wheel and with this one's libraries and kernels, not its das-flows."""
    folder = tmp_path_factory.mktemp("installed") / "environment"
    venv.create(folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    # Python reads no .pth file in a folder that a .pth file names, so not that of an editable das-flows.
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    words = ["--python", folder, "install", "--quiet", "--no-deps", "--no-index", "--force-reinstall"]
    subprocess.run([sys.executable, "-m", "pip", *words, distributions[1]], check=True)
    share_kernels(packages, folder)
    return folder / "bin"


def share_kernels(packages: Path, environment: Path) -> None:
    """Copy the compiled kernels: numba takes them for sources of the same bytes, in a folder named after the source's.

    Compiling them again would take longer than all else that is tested here.
    """
    kernels = Path(os.environ[FOLDER_VARIABLE])
    for package in PACKAGES:
        for source in {path.parent.relative_to(ROOT) for path in (ROOT / package).rglob("*.py")}:
            compiled, name = (kernels_of(root / source) for root in (ROOT, packages))
            if (kernels / compiled).exists():
                shutil.copytree(kernels / compiled, environment / ENVIRONMENT_FOLDER / "kernels" / kernels.name / name)


def kernels_of(folder: Path) -> str:
    """Return numba's name for the kernels of the files in a folder."""
    return str(_CacheLocator.get_suitable_cache_subpath(str(folder / "file.py")))


def run(environment: Path, *words: object, cwd: Path) -> str:
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_API", "PYTHON"))}
    path = f"{environment}:{variables['PATH']}"
    ended = subprocess.run(
        [environment / str(words[0]), *map(str, words[1:])],
        env=variables | {"PATH": path, "COLUMNS": "200"},
        cwd=cwd,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def contents(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}


def test_it_has_the_files_of_the_packages_and_no_others(distributions: tuple[Path, Path]) -> None:
    """It was built from the source distribution, so that one has them too."""
    folders = {package: ROOT / package for package in PACKAGES} | {"flows/deploy": ROOT / "deploy"}
    files = {
        f"{name}/{path.relative_to(folder)}": path.read_bytes()
        for name, folder in folders.items()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    files["das_flows.py"] = (ROOT / "das_flows.py").read_bytes()
    made = {name: data for name, data in contents(distributions[1]).items() if ".dist-info/" not in name}
    assert made.keys() == files.keys()
    assert made == files


@pytest.mark.ci
def test_its_deployments_fit_their_flows(environment: Path, tmp_path: Path) -> None:
    """`das deployment` writes them; each is loaded as `prefect deploy` and a worker do, in the folder DAS_HOME."""
    run(environment, "das", "deployment", tmp_path / "deploy", cwd=tmp_path)
    written = tmp_path / "deploy"
    made = run(environment, "python", written / "offer.py", "variables", written / "policy.json", cwd=tmp_path)
    lines = [*(written / "environment").read_text().splitlines(), *made.splitlines()]
    variables = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    home = Path(variables["DAS_HOME"])
    assert home.is_relative_to(environment.parent)
    assert (tmp_path / "deploy/das-prefect-worker.service").read_text().count(f"{environment}/prefect ") == 1
    program = (
        "import json, re, sys, yaml\n"
        "from prefect.flows import load_flow_from_entrypoint\n"
        "text, values = open(sys.argv[1]).read(), json.loads(sys.argv[2])\n"
        "text = re.sub(r'\\{\\{ \\$(\\w+) \\}\\}', lambda found: values[found[1]], text)\n"
        "for each in yaml.safe_load(text)['deployments']:\n"
        "    flow = load_flow_from_entrypoint(each['entrypoint'])\n"
        "    flow.validate_parameters(each['parameters'])\n"
        "    print(each['name'], sys.modules[flow.fn.__module__].__file__)\n"
    )
    said = run(environment, "python", "-c", program, tmp_path / "deploy/prefect.yaml", json.dumps(variables), cwd=home)
    assert len(said.splitlines()) > 10
    assert all(line.split()[1].startswith(f"{home}/flows/") for line in said.splitlines())


@pytest.mark.ci
@pytest.mark.e2e
def test_a_country_is_released_shown_and_tuned(environment: Path, tmp_path: Path) -> None:
    said = run(environment, "das", "demo", "out", cwd=tmp_path)
    (made,) = (tmp_path / "out").iterdir()
    places = [f"{made}/{system}release/us" for system in ("", "ddhcb/", "sdhc/", "tda/")]
    assert [line.rpartition("das show ")[2] for line in said.splitlines()] == places
    households = pd.read_parquet(
        made / "sdhc/release/us/PH1_num/PH1_num.parquet"
    )  # of so small a country: not noise alone
    assert (households["COUNT"] > households["MOE"]).mean() > 0.9
    run(environment, "das", "check", made / "release/us", cwd=tmp_path)
    run(environment, "das", "show", made / "release/us", "--export", "pages", cwd=tmp_path)
    run(environment, "das", "tune", made / "params", "--html", "tune.html", cwd=tmp_path)
    assert (tmp_path / "pages/index.html").exists()
    assert "</html>" in (tmp_path / "tune.html").read_text()
