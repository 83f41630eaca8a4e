"""A task worker that holds leases."""

from __future__ import annotations

import pytest


@pytest.fixture
def holder(idle):
    with idle.tasks.worker("render-1", workflows=["render"]) as leases:
        yield leases
