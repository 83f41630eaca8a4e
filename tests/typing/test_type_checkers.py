"""mypy and pyright agree on the types of user code: typed uses, and programs of the tutorial."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks

HERE = Path(__file__).parent
PYRIGHT = {"extraPaths": [str(ROOT / "src")], "pythonVersion": "3.11", "include": ["."]}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the file of typed uses and the programs of the tutorial."""
    folder = tmp_path_factory.mktemp("programs")
    shutil.copy(HERE / "user_code.py", folder)
    page = ROOT / "docs" / "tutorial.md"
    parts = [block.text for block in blocks(page) if block.is_run]
    assert parts
    (folder / "tutorial.py").write_text("\n".join(parts), "utf-8")
    (folder / "pyrightconfig.json").write_text(json.dumps(PYRIGHT), "utf-8")
    return folder


def check(folder: Path, *command: str) -> str:
    """Run a type checker in *folder*; return its errors, nothing if it has none."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src"), "PATH": path}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def mypy(folder: Path) -> str:
    command = [sys.executable, "-m", "mypy", "--strict", "--python-version", "3.11"]
    cache = ["--cache-dir", str(ROOT / ".mypy_cache")]
    return check(folder, *command, *cache, "tutorial.py", "user_code.py")


def pyright(folder: Path) -> str:
    return check(folder, "pyright", "--pythonpath", sys.executable)


def test_mypy_accepts_them(programs: Path) -> None:
    assert mypy(programs) == ""


@pytest.mark.needs_tool("pyright")
def test_pyright_accepts_them(programs: Path) -> None:
    assert pyright(programs) == ""


@pytest.mark.needs_tool("pyright")
def test_both_see_a_wrong_type(programs: Path, tmp_path: Path) -> None:
    shutil.copytree(programs, tmp_path, dirs_exist_ok=True)
    wrong = "\n\ndef wrong(engine: Engine) -> str:\n    return engine.start(counted, 1).result()\n"
    with (tmp_path / "user_code.py").open("a", encoding="utf-8") as file:
        file.write(wrong)

    assert 'got "int", expected "str"' in mypy(tmp_path)
    assert '"int" is not assignable to "str"' in pyright(tmp_path)
