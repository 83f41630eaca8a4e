"""A working folder of its own for each test."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    """A text is the path of a database, which an engine creates."""
    monkeypatch.chdir(tmp_path)
