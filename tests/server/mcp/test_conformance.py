"""The official conformance suite of MCP, against a server process."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.conftest import SYSTEM_PATH
from tests.engine.waiting import PATIENCE

pytestmark = pytest.mark.needs_tool("mcp-conformance")
ROOT = Path(__file__).parents[3]

SCENARIOS = [
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-status-notifications",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
    "server-initialize",
    "server-session-lifecycle",
    "server-stateless",
    "server-sse-polling",
    "server-sse-multiple-streams",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("conformance")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.server.mcp.conformance_program", str(folder / "x.db")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    address = process.stdout.readline().strip()
    assert httpx.get(f"{address}/healthz", timeout=PATIENCE).status_code == 200
    yield address
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_of_the_official_suite_passes(server, scenario, tmp_path):
    command = shutil.which("mcp-conformance", path=SYSTEM_PATH)

    ended = subprocess.run(
        [command, "server", "--url", f"{server}/mcp", "--scenario", scenario],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
    )

    report = re.search(r"Passed: \d+/\d+, (\d+) failed", ended.stdout)
    assert report and report[1] == "0", ended.stdout
