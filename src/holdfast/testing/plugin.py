"""Fixtures for pytest.

Their imports are inside the functions, so a test run that uses none of them does not pay for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from holdfast.testing.clock import VirtualClock
    from holdfast.testing.crash import CrashReport
    from holdfast.testing.lab import Lab


@pytest.fixture
def holdfast_clock() -> VirtualClock:
    """A virtual clock, which stands still until the test moves it."""
    from holdfast.testing.clock import VirtualClock

    return VirtualClock()


@pytest.fixture
def holdfast_lab(holdfast_clock: VirtualClock) -> Iterator[Lab]:
    """An engine on a database file of its own, with the virtual clock of the test. At the end all
    laws of the database must hold."""
    from holdfast.testing.lab import Lab

    with Lab(clock=holdfast_clock) as lab:
        yield lab
        broken = lab.engine.database.check()
    assert broken == [], broken


@pytest.fixture
def crash_everywhere() -> Callable[..., CrashReport]:
    """Run a workflow once per possible crash: see ``holdfast.testing.crash_everywhere``."""
    from holdfast.testing.crash import crash_everywhere

    return crash_everywhere
