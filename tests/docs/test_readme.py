"""The first page keeps its promises: it is short, and its program survives kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.docs.pages import ROOT, blocks

README = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "tutorial.md"
PROGRAM = next(block.text for block in blocks(README) if block.is_run)


def test_the_first_program_fits_on_a_card():
    assert len(PROGRAM.splitlines()) <= 20


def test_the_page_is_short():
    assert len(README.read_text("utf-8").splitlines()) < 150


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is what POSIX calls it")
def test_the_first_program_survives_kill_9_as_the_page_shows(tmp_path):
    (tmp_path / "orders.py").write_text(PROGRAM, "utf-8")

    killed = run(tmp_path, "crash")
    finished = run(tmp_path)
    again = run(tmp_path)

    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "charging order-7\n")
    assert (finished.returncode, finished.stdout) == (0, "order-7 shipped, payment for order-7\n")
    assert (again.returncode, again.stdout) == (0, finished.stdout)


def test_the_tutorial_can_be_run_twice_on_the_same_database(tmp_path):
    program = "\n".join(block.text for block in blocks(TUTORIAL) if block.is_run)
    (tmp_path / "orders.py").write_text(program, "utf-8")

    first = run(tmp_path)
    second = run(tmp_path)

    assert (first.returncode, first.stderr) == (0, "")
    assert (second.returncode, second.stdout, second.stderr) == (0, first.stdout, "")


def run(folder, *arguments):
    command = [sys.executable, "-u", "orders.py", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200)
