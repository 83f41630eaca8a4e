"""Every Python block of a page runs, in order and in one namespace, and prints what the page says
that it prints."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from holdfast.authoring import registry
from holdfast.authoring.bpmn import handlers
from tests.docs.pages import PAGES, blocks, label

WITH_CODE = [page for page in PAGES if any(block.is_run for block in blocks(page))]


@pytest.fixture(autouse=True)
def _own_log_handlers():
    """Remove the handlers that a page adds to a logger: their stream is closed after the test."""
    names = [None, *logging.Logger.manager.loggerDict]
    before = {name: list(logging.getLogger(name).handlers) for name in names}
    yield
    for name in [None, *logging.Logger.manager.loggerDict]:
        logging.getLogger(name).handlers = before.get(name, [])


@pytest.mark.parametrize("page", WITH_CODE, ids=label)
def test_the_blocks_of_a_page_run_and_print_what_it_says(page, tmp_path, monkeypatch, capsys):
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(handlers, "_registered", {})
    monkeypatch.setattr(sys, "argv", ["page.py"])
    monkeypatch.chdir(tmp_path)
    printed = ""

    for block in blocks(page):
        if block.is_run:
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), module.__dict__)
            printed = capsys.readouterr().out
        elif block.language == "output":
            assert printed == block.text, f"{label(page)}:{block.line}"

    if any(name.startswith("test_") for name in vars(module)):
        run_as_tests(page, tmp_path)


def run_as_tests(page: Path, folder: Path) -> None:
    """A page that shows tests shows tests that pass."""
    file = folder / "test_page.py"
    file.write_text("\n".join(block.text for block in blocks(page) if block.is_run), "utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
        str(file),
    ]

    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
