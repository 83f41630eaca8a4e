"""A working folder of its own for each test, and calls that do not wait for a worker."""

from __future__ import annotations

import pytest

from holdfast.connect import models
from holdfast.connect.blocking import models as blocking_models


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    """A text is the path of a database, which an engine creates."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def without_patience(monkeypatch):
    """No worker answers the instructions that are accepted here: the calls raise Unanswered."""
    for module in (models, blocking_models):
        monkeypatch.setattr(module, "PATIENCE", 0.05)
