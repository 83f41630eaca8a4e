"""The distribution: its metadata, its long description, the versions of Python it names, and no
statement that one of them warns of."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
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
