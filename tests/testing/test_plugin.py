"""The pytest plugin: its fixtures work where warnings are errors, and loading it loads nothing
else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SOURCES = str(Path(__file__).parents[2] / "src")

TESTS = """
from holdfast import sleep, step, workflow

@step
async def double(x: int) -> int:
    return 2 * x

@workflow
async def slowly(x: int) -> int:
    await sleep("30d")
    return await double(x)

def test_lab(holdfast_lab, holdfast_clock):
    before = holdfast_clock.now()
    assert holdfast_lab.run_to_end(slowly, 4) == 8
    assert holdfast_clock.now() > before

def test_crashes(crash_everywhere):
    assert crash_everywhere(slowly, 4, doubles=1, zombies=False).boundaries > 1
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": SOURCES},
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_the_fixtures_work_where_warnings_are_errors(tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS)

    done = run(
        tmp_path,
        "-m",
        "pytest",
        "-W",
        "error",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:holdfast",
        "-p",
        "holdfast.testing.plugin",
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_the_plugin_loads_nothing_that_no_test_asks_for(tmp_path):
    loaded = "[name for name in sys.modules if name.startswith('holdfast.testing')]"

    done = run(tmp_path, "-c", f"import sys, holdfast.testing.plugin; print({loaded})")

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['holdfast.testing', 'holdfast.testing.plugin']"


def test_the_names_of_the_package_are_found_when_they_are_used(tmp_path):
    done = run(
        tmp_path,
        "-c",
        "import holdfast.testing as t; print(*(getattr(t, name).__name__ for name in t.__all__))",
    )

    assert done.stdout.split() == sorted(done.stdout.split())
    assert "crash_everywhere" in done.stdout, done.stderr
