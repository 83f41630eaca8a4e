"""The distribution: its metadata, its long description, the versions of Python it names, and no
statement that one of them warns of."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from holdfast.store.sqlite import dialect

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
NUMBERED = re.compile(r"\?\d")

PROGRAM = """
import warnings
warnings.simplefilter("error")
from holdfast import Engine, step, workflow

@step
def one() -> int:
    return 1

@workflow
async def works() -> int:
    return await one() + await one()

with Engine("versions.db") as engine:
    assert engine.start(works).result(timeout=60) == 2
    assert engine.runs(status="completed").count() == 1
    assert engine.database.check() == []
"""


def test_the_metadata_is_complete():
    assert PROJECT["license"] == "Apache-2.0"
    assert PROJECT["requires-python"] == f">={VERSIONS[0]}"
    assert all(PROJECT[name] for name in ("authors", "keywords", "description", "urls"))
    named = {text.rpartition(" :: ")[2] for text in PROJECT["classifiers"] if ":: 3." in text}
    assert named == set(VERSIONS)
    assert not any("License ::" in text for text in PROJECT["classifiers"])  # see PEP 639


def test_the_long_description_has_no_relative_links():
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)

    text = hook.absolute_links((ROOT / "README.md").read_text(), PROJECT["urls"]["Source"])

    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert targets
    assert [target for target in targets if not target.startswith("https://")] == []


def test_no_statement_numbers_its_parameters():
    """Python 3.12.0 to 3.12.3 takes ``?1`` for a named parameter, and warns."""
    for name in dialect.SQL:
        assert not NUMBERED.search(dialect.positional(name)[0]), name
    for path in (ROOT / "src").rglob("*"):
        if path.suffix == ".sql":
            assert not NUMBERED.search(path.read_text()), path
        elif path.suffix == ".py":
            assert [text for text in texts(path) if NUMBERED.search(text)] == [], path


def texts(path: Path) -> list[str]:
    """The strings of a module that look like SQL."""
    tree = ast.parse(path.read_text())
    strings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    words = ("SELECT ", "INSERT ", "UPDATE ", "DELETE ")
    return [text for text in strings if isinstance(text, str) and text.startswith(words)]


@pytest.mark.parametrize("version", VERSIONS)
def test_no_version_of_python_warns(version, tmp_path):
    """A version that is not installed is skipped: no registry that is at hand has them all."""
    python = sys.executable
    if version != f"{sys.version_info.major}.{sys.version_info.minor}":
        python = shutil.which(f"python{version}")
    if python is None:
        pytest.skip(f"missing tool: Python {version}")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    needed = [python, "-c", "import msgspec"]
    if subprocess.run(needed, env=environment, capture_output=True).returncode:
        pytest.skip(f"missing tool: Python {version} with msgspec")

    result = subprocess.run(
        [python, "-c", PROGRAM], env=environment, cwd=tmp_path, capture_output=True, text=True
    )

    assert (result.returncode, result.stderr) == (0, "")


def test_the_sdist_and_the_wheel_are_built_and_install_in_a_fresh_environment(tmp_path):
    """Needs a package registry for the build tool and the dependencies."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
    python = str(tmp_path / "env" / "bin" / "python")
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--retries", "1"]
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if subprocess.run([*pip, "hatchling>=1.27"], env=clean, capture_output=True).returncode:
        pytest.skip("missing tool: a package registry, for hatchling")
    built = tmp_path / "dist"
    subprocess.run([python, "-m", "hatchling", "build", "-d", str(built)], cwd=ROOT, check=True)

    (sdist,) = built.glob("*.tar.gz")
    (wheel,) = built.glob("*.whl")
    contents = set(zipfile.ZipFile(wheel).namelist())
    sources = {str(path.relative_to(ROOT / "src")) for path in package_files()}
    assert sources - contents == set()
    # From the sdist: pip builds the wheel from it, so it must contain all that the build needs.
    subprocess.run([*pip, "--no-build-isolation", str(sdist)], env=clean, check=True)
    result = subprocess.run(
        [python, "-c", PROGRAM], env=clean, cwd=tmp_path, capture_output=True, text=True
    )
    assert (result.returncode, result.stderr) == (0, "")
    command = [str(tmp_path / "env" / "bin" / "holdfast"), "--db", "versions.db", "runs", "--json"]
    listed = subprocess.run(command, env=clean, cwd=tmp_path, capture_output=True, check=True)
    assert [run["status"] for run in json.loads(listed.stdout)["items"]] == ["completed"]


def package_files() -> list[Path]:
    """Return the files of the package that belong to a distribution."""
    files = (ROOT / "src" / "holdfast").rglob("*")
    return [path for path in files if path.is_file() and "__pycache__" not in path.parts]
