"""Fixtures and hooks for all tests: the PostgreSQL server, and tools that a machine may lack.

A test that needs a program from outside Python carries ``@pytest.mark.needs_tool(name)``. Where the
program is missing, the test is skipped and the end of the run lists it with the command that
installs it. With ``HOLDFAST_STRICT=1`` (``make test STRICT=1``) it fails instead.
"""

import os
import shutil
import sys
from collections import Counter

import pytest

TOOLS = {
    "pgbouncer": "apt-get install pgbouncer",
    "pyright": ".venv/bin/python -m pip install 'pyright[nodejs]'",
}
"""The programs that tests may need, each with the command that installs it on Debian."""

SYSTEM_PATH = os.pathsep.join(
    [
        os.path.dirname(sys.executable),
        os.environ.get("PATH", ""),
        "/usr/sbin",
        "/usr/local/sbin",
    ]
)
MISSING = "missing tool: "


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "needs_tool(name): the test needs a program that may be missing"
    )


def pytest_runtest_setup(item):
    for marker in item.iter_markers("needs_tool"):
        (name,) = marker.args
        if shutil.which(name, path=SYSTEM_PATH) is None:
            message = f"{MISSING}{name}; install it with: {TOOLS[name]}"
            if os.environ.get("HOLDFAST_STRICT"):
                pytest.fail(message, pytrace=False)
            pytest.skip(message)


def pytest_terminal_summary(terminalreporter):
    reasons = [str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", [])]
    missing = Counter(reason.split(MISSING)[1] for reason in reasons if MISSING in reason)
    for message, count in missing.items():
        terminalreporter.write_line(f"Not tested: {count} tests need {message}")


@pytest.fixture(scope="session")
def postgres_server():
    """A PostgreSQL server for all tests of the process, started when the first test requests it."""
    from holdfast.testing.postgres import postgres

    with postgres() as server:
        yield server


@pytest.fixture(scope="session")
def restartable_server():
    """A server that keeps committed data however it is stopped."""
    from holdfast.testing.postgres import postgres

    with postgres(durable=True) as server:
        yield server
