"""``holdfast check``: code is judged by recorded runs before it is deployed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.cli.conftest import PATIENCE, environment

OLD = """
from holdfast import step, wait_signal, workflow

@step
async def charge() -> str:
    print("charge is executed")
    return "paid"

@step
async def ship() -> str:
    return "shipped"

@workflow
async def order() -> str:
    await charge()
    await wait_signal("go")
    return await ship()

@workflow
async def steady() -> None:
    print("the workflow is executed")
    await wait_signal("go")
"""
NEW = OLD.replace("    await charge()\n", "")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        yield str(tmp_path / "orders.db")
        return
    with request.getfixturevalue("postgres_server").lend() as url:
        yield url


class Deployments:
    """Folders with the old and the new code, and a database with two runs of each workflow."""

    def __init__(self, tmp_path, url):
        self.url = url
        for name, code in (("old", OLD), ("new", NEW)):
            (tmp_path / name).mkdir()
            (tmp_path / name / "orders.py").write_text(code)
        self.tmp_path = tmp_path

    def holdfast(self, version, *words, code=0):
        finished = subprocess.run(
            [sys.executable, "-m", "holdfast", "--db", self.url, *map(str, words)],
            cwd=self.tmp_path / version,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert finished.returncode == code, (finished.stdout, finished.stderr)
        return finished

    def park(self, count=2):
        """Let runs of both workflows come to their waits."""
        program = (
            "import sys; from holdfast import Engine; import orders\n"
            f"with Engine({self.url!r}) as engine:\n"
            "    for flow in (orders.order, orders.steady):\n"
            f"        for _ in range({count}):\n"
            "            engine.start(flow).wait_until('waiting', timeout='30s')\n"
        )
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=self.tmp_path / "old",
            env=environment(),
            check=True,
            timeout=PATIENCE,
        )


@pytest.fixture
def deployments(tmp_path, url):
    return Deployments(tmp_path, url)


def test_live_runs_are_judged_before_a_deployment(deployments):
    deployments.park()
    before = deployments.holdfast("old", "runs", "--json").stdout

    same = deployments.holdfast("old", "check", "--using", "orders.py", "--live")
    changed = deployments.holdfast("new", "check", "--using", "orders", "--live", code=1)

    assert same.stdout.splitlines()[-1] == "4 runs judged: the code fits all of them"
    assert "order version 1: 2 runs wait" in same.stdout
    assert ": waits for signal go" in same.stdout
    assert "order version 1: 2 runs diverge" in changed.stdout
    assert "recorded is step_completed charge" in changed.stdout
    assert "orders.py:" in changed.stdout
    assert changed.stdout.splitlines()[-1] == "4 runs judged: the code does not fit 2 of them"
    assert "charge is executed" not in same.stdout + same.stderr + changed.stderr
    assert deployments.holdfast("old", "runs", "--json").stdout == before


def test_as_json_it_has_groups_and_every_objection(deployments):
    deployments.park()

    said = deployments.holdfast("new", "check", "--using", "orders.py", "--live", "--json", code=1)
    report = json.loads(said.stdout)

    assert report["ok"] is False
    assert report["modules"] == [{"module": "orders.py", "workflows": ["order", "steady"]}]
    groups = {group["workflow"]: group for group in report["live"]["groups"]}
    assert {name: (group["verdict"], group["runs"]) for name, group in groups.items()} == {
        "order": ("diverges", 2),
        "steady": ("waits", 2),
    }
    objections = report["live"]["objections"]
    assert {item["run_id"] for item in objections} == set(groups["order"]["first"])
    assert {item["step"] for item in objections} == {"charge"}
    assert "the workflow is executed" in said.stderr


def test_an_exported_file_is_replayed_with_the_named_module(deployments):
    deployments.park(count=1)
    file = deployments.tmp_path / "exported.db"
    runs = json.loads(deployments.holdfast("old", "runs", "--json").stdout)["items"]
    run_id = next(run["id"] for run in runs if run["workflow"] == "order")
    deployments.holdfast("old", "db", "export", run_id, file)

    fits = deployments.holdfast("old", "check", file, "--using", "orders.py")
    differs = deployments.holdfast("new", "check", file, "orders.py", code=1)

    assert "1 run judged: the code fits all of them" in fits.stdout
    assert "order version 1: 1 run diverges" in differs.stdout


def test_a_module_is_loaded_and_its_workflows_are_listed(call):
    assert "checkout" in call.text("check", "shop.py")
    assert "half-written" in call.error("check", "broken.py")


def test_other_kinds_of_files_are_refused(call, tmp_path):
    (tmp_path / "order.txt").write_text("workflow order {}")

    error = call.error("check", tmp_path / "order.txt")

    assert "not a kind of definition that this version checks" in error
    assert "there is no file" in call.error("check", tmp_path / "none.py")


def test_something_must_be_named(call):
    assert "name a PATH, or add --live" in call.error("check", code=2)


def test_two_workflows_of_one_name_are_refused(tmp_path):
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(OLD)
    finished = subprocess.run(
        [sys.executable, "-m", "holdfast", "check", "one.py", "two.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )

    assert finished.returncode == 1
    assert "Two workflows have the same name" in finished.stderr
