"""What a failed test leaves behind is ended: its engines, and the processes that it started."""

import subprocess
import sys

from holdfast import Engine, wait_signal, workflow
from holdfast.testing import internals
from tests import leftovers


@workflow(name="leftover_run")
async def waits() -> None:
    await wait_signal("go")


def test_an_open_engine_is_ended(tmp_path, request):
    leftovers.end_engines()  # other tests may have left some
    engine = Engine(tmp_path / "test.db", workflows=[waits])
    request.addfinalizer(engine.close)
    engine.work()
    engine.start(waits)
    idle = Engine(tmp_path / "idle.db", workflows=[])
    request.addfinalizer(idle.close)

    assert leftovers.end_engines() == 2

    assert not engine._calls.worker_thread.thread.is_alive()
    assert [internals(engine_left).closed for engine_left in (engine, idle)] == [True, True]
    assert leftovers.end_engines() == 0


def test_the_processes_of_a_test_are_ended_with_their_children(request):
    program = (
        "import subprocess, sys;"
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE);"
        "print(child.pid, flush=True); input()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program], **pipes) as process:
        assert process.stdout.readline()

        assert leftovers.end_processes("another test") == 0
        assert leftovers.end_processes(request.node.nodeid) == 2

        assert process.wait(60) < 0
