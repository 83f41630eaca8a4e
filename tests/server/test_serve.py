"""``holdfast serve`` in a process of its own."""

import http.client
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import pytest

from holdfast import Engine
from tests.engine.waiting import PATIENCE, until
from tests.server.clients import ServeProcess

PAGE = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
MODULE = """
import holdfast

@holdfast.workflow(name="served.triple")
async def triple(number: int) -> int:
    return number * 3
"""


def run_cli(*words):
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *map(str, words)], capture_output=True, text=True
    )


def test_a_served_database_is_used_with_the_printed_link(tmp_path):
    (tmp_path / "served.py").write_text(MODULE)
    with ServeProcess(tmp_path / "s.db", "--worker", str(tmp_path / "served.py")) as served:
        with httpx.Client(base_url=served.url, headers=PAGE, timeout=PATIENCE) as browser:
            stranger = browser.get("api/v1/runs")
            browser.post("api/v1/login", json={"link": served.link})
            started = browser.post("api/v1/runs", json={"workflow": "served.triple", "args": [7]})
            run_id = started.json()["id"]
            address = f"api/v1/runs/{run_id}/result?wait=20s"
            result = until(lambda: browser.get(address).json().get("result"))
            rebound = browser.get("healthz", headers={"Host": "evil.example"})

        assert stranger.status_code == 401
        assert result == 21
        assert rebound.status_code == 421
        assert served.stop() == 0


LOGGING_MODULE = """
import logging
import holdfast

@holdfast.step
async def speak() -> None:
    logging.getLogger("holdfast.served").warning("spoken")

@holdfast.workflow(name="served.logging")
async def flow() -> None:
    await speak()
"""


def test_log_lines_of_a_server_are_json_and_name_the_run(tmp_path):
    (tmp_path / "served_logging.py").write_text(LOGGING_MODULE)
    module = str(tmp_path / "served_logging.py")
    options = ("--worker", module, "--log-format", "json")
    with ServeProcess(tmp_path / "s.db", *options) as served:
        with Engine(tmp_path / "s.db", work=False) as engine:
            run = engine.start("served.logging")
            run.result(timeout=PATIENCE)
        assert served.stop() == 0

    lines = [json.loads(line) for line in served.log.splitlines()]
    (spoken,) = [line for line in lines if line["message"] == "spoken"]
    assert (spoken["run"], spoken["workflow"]) == (run.id, "served.logging")
    assert (spoken["step"], spoken["attempt"]) == ("speak", 1)


def test_a_server_stops_in_time_with_open_streams_and_long_polls(tmp_path):
    with Engine(tmp_path / "s.db", work=False) as engine:
        key = engine.api_keys.add("viewer", roles="viewer").api_key
        run = engine.start("elsewhere")
    with ServeProcess(tmp_path / "s.db") as served:
        address = urlsplit(served.url)
        connections = []
        for path in ["/api/v1/events/stream"] * 30:
            connection = http.client.HTTPConnection(address.hostname, address.port)
            connection.request("GET", path, headers={"Authorization": f"Bearer {key}"})
            response = connection.getresponse()
            assert response.readline() == b": connected\n"
            connections.append((connection, response))
        with ThreadPoolExecutor() as pool:
            poll = pool.submit(
                httpx.get,
                f"{served.url}api/v1/runs/{run.id}/result?wait=30s",
                headers={"Authorization": f"Bearer {key}"},
                timeout=PATIENCE,
            )
            assert served.stop() == 0  # a server that waits for its streams does not end
            is_cut_off = poll.exception(PATIENCE) is not None or poll.result().is_error
        ends = [response.read() for _, response in connections]
        for connection, _ in connections:
            connection.close()

    assert len(ends) == 30
    assert is_cut_off  # a server that waits for its polls answers after 30 seconds


def test_a_port_in_use_is_a_named_error(tmp_path):
    with ServeProcess(tmp_path / "s.db") as served:
        port = urlsplit(served.url).port

        done = run_cli("--db", tmp_path / "s.db", "serve", "--port", port)

    assert done.returncode == 1
    assert done.stderr.startswith("holdfast: Another program listens on this port")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("options", [(), ("--read-only",)])
def test_without_a_key_the_server_stays_on_loopback(tmp_path, options):
    done = run_cli("--db", tmp_path / "s.db", "serve", "--host", "0.0.0.0", "--port", 0, *options)

    assert done.returncode == 1
    assert "api-keys add" in done.stderr


def test_api_keys_are_managed_from_the_command_line(tmp_path):
    db = ("--db", tmp_path / "k.db")
    added = run_cli(*db, "api-keys", "add", "ci", "--role", "starter,viewer", "--expires", "90d")
    twice = run_cli(*db, "api-keys", "add", "ci", "--role", "viewer")
    wrong = run_cli(*db, "api-keys", "add", "other", "--role", "viewr")
    listed = run_cli(*db, "--json", "api-keys", "list")
    revoked = run_cli(*db, "api-keys", "revoke", "ci", "--yes")

    assert added.stdout.startswith("hf_")
    assert twice.returncode == 1 and "An API key that is not revoked has this name" in twice.stderr
    assert wrong.returncode == 2 and "did you mean viewer?" in wrong.stderr
    assert [key["name"] for key in json.loads(listed.stdout)["items"]] == ["ci"]
    assert added.stdout.strip().rpartition("_")[2] not in listed.stdout
    assert revoked.returncode == 0
