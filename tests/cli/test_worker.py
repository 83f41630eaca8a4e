"""``holdfast worker``: real processes, real signals."""

from __future__ import annotations

import signal

import pytest

from holdfast.core.status import Status
from tests.engine.receiver import Receiver


def test_it_tells_what_it_serves_and_works(call, process):
    run_id = call.start("shop.py:parcel", '"x"')

    worker = process("worker", "shop.py", "--name", "w1", "--concurrency", "5")
    worker.wait_for(f"run {run_id} of parcel completed")

    assert any(
        "worker w1 serves branches, calling, checkout" in line and "5 concurrent runs" in line
        for line in worker.lines
    )
    assert any("store sqlite:///" in line for line in worker.lines)
    assert call.items("workers")[0]["worker"] == "w1"
    worker.send()
    assert worker.ended() == 0
    assert call.items("workers") == []


def test_it_delivers_to_hosts_that_it_is_told_to_allow(call, process):
    receiver = Receiver()
    try:
        call.text("events", "webhooks", "set", "hook", receiver.url, "--kind", "completions")
        run_id = call.start("shop.py:parcel", '"x"')
        worker = process("worker", "shop.py", "--webhook-host", "127.0.0.1")
        receiver.wait(1)

        assert receiver.events()[0][0] == run_id
        worker.send()
        assert worker.ended() == 0
    finally:
        receiver.close()


def test_told_to_stop_it_lets_the_step_end_and_hands_the_run_back(call, process):
    run_id = call.start("shop.py:hanging")
    worker = process("worker", "shop.py")
    worker.wait_for("began")

    worker.send(signal.SIGTERM)
    worker.wait_for("stopping")
    worker.tell("done")

    assert worker.ended() == 0
    shown = call.json("show", run_id)
    assert shown["status"] == "pending"
    assert [
        (event["kind"], event["data"])
        for event in shown["history"]
        if event["kind"] == "step_completed"
    ] == [("step_completed", "done")]
    assert call.items("workers") == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_twice_it_stops_at_once_and_frees_the_run(call, process, number):
    run_id = call.start("shop.py:hanging")
    worker = process("worker", "shop.py")
    worker.wait_for("began")

    worker.send(number)
    worker.wait_for("stopping")
    worker.send(number)

    assert worker.ended() == 128 + number
    assert call.json("show", run_id)["status"] == "pending"
    assert call.items("workers") == []


def test_a_waiting_run_is_released_at_once(call, process):
    run_id = call.start("shop.py:listener")
    worker = process("worker", "shop.py")
    worker.wait_for("ready")
    worker.send()

    assert worker.ended() == 0
    assert call.json("show", run_id)["worker"] is None


def test_a_list_of_workflows_is_served_and_no_other(call, process):
    call.start("shop.py:checkout")

    worker = process("worker", "shop:some", "--lane", "default,slow", "--capability", "gpu")
    worker.wait_for("ready")

    (found,) = call.items("workers")
    assert sorted(found["workflows"]) == ["listener", "parcel"]
    assert found["lanes"] == ["default", "slow"]
    assert found["capabilities"] == ["gpu"]
    assert "does not know the workflow, only listener, parcel" in call.text("why", "last")


def test_several_modules_are_served_by_one_worker(tmp_path, process, call):
    for name in ("billing", "stock"):
        (tmp_path / f"{name}.py").write_text(
            f"from holdfast import workflow\n\n@workflow\nasync def {name}() -> str: ...\n"
        )

    worker = process("worker", "billing", "stock.py", cwd=tmp_path)
    worker.wait_for("ready")

    (found,) = call.items("workers")
    assert sorted(found["workflows"]) == ["billing", "stock"]
    worker.send()
    assert worker.ended() == 0


def test_named_workflows_and_whole_modules_are_not_mixed(call):
    assert "MODULE or MODULE:NAME for all" in call.error("worker", "shop", "shop:some", code=2)


def test_an_engine_of_the_module_brings_its_own_database_and_settings(tmp_path, process):
    (tmp_path / "app.py").write_text(
        "from holdfast import Engine, workflow\n\n"
        "@workflow\ndef hello(name: str) -> str:\n    return f'hello {name}'\n\n"
        "app = Engine('own.db', workflows=[hello], name='mine', concurrency=7)\n"
    )

    worker = process("worker", "app:app", "--concurrency", "3", cwd=tmp_path)
    worker.wait_for("ready")

    assert any(
        "worker mine serves hello" in line and "3 concurrent runs" in line for line in worker.lines
    )
    assert any("own.db" in line for line in worker.lines)


def test_an_engine_of_the_module_and_another_database_do_not_go_together(tmp_path, execute):
    (tmp_path / "app.py").write_text(
        "from holdfast import Engine, workflow\n\n"
        "@workflow\ndef hello() -> None: ...\n\n"
        "app = Engine('own.db', workflows=[hello])\n"
    )

    done = execute("--db", "other.db", "worker", "app:app", cwd=tmp_path)

    assert done.returncode == 2
    assert "omit --db" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_module_in_a_package_may_use_relative_imports(tmp_path, execute):
    package = tmp_path / "store" / "flows"
    package.mkdir(parents=True)
    (tmp_path / "store" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "names.py").write_text("NAME = 'rel'\n")
    (package / "main.py").write_text(
        "from holdfast import workflow\nfrom .names import NAME\n\n@workflow\ndef hi() -> str:\n   "
        " return NAME\n"
    )

    assert execute("run", "store/flows/main.py:hi", cwd=tmp_path).stdout == '"rel"\n'
    assert execute("run", "store.flows.main:hi", cwd=tmp_path).stdout == '"rel"\n'


def test_a_killed_worker_leaves_a_run_that_says_so(call, process):
    run_id = call.start("shop.py:hanging")
    worker = process("worker", "shop.py", "--name", "doomed")
    worker.wait_for("began")
    assert call.json("show", run_id)["status"] == Status.RUNNING

    worker.send(signal.SIGKILL)
    worker.ended()

    text = call.text("why", run_id)
    assert "worker doomed" in text and "which held it, is gone" in text
    assert "no worker is alive" in text
    assert call.items("workers")[0]["state"] == "gone"
    assert "needs a worker" in call.text("doctor", code=1)


def test_an_interrupted_run_says_how_it_goes_on(call, process):
    runner = process("run", "shop.py:hanging", "--id", "order-7")
    runner.wait_for("began")

    runner.send(signal.SIGINT)

    assert runner.ended() == 130
    assert any("stopped working on order-7" in line for line in runner.lines)
    assert not any("Traceback" in line for line in runner.lines)
    assert call.json("show", "order-7")["status"] == "pending"
