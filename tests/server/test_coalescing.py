"""Concurrent requests share reads and commits, and each gets its own answer."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Engine
from holdfast.server import app
from holdfast.server.coalescing import Coalescer
from holdfast.server.connections import MOST_WAITING, JoinedWrites
from holdfast.server.starts import RequestedStart, commit_all
from holdfast.service.runs import RunService
from tests.server.clients import ApiClient, problem
from tests.server.conftest import WORKFLOWS


async def turn():
    """Let everything that is due on the loop happen."""
    happened = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(happened.set_result, None)
    await happened


def test_items_that_arrive_during_a_batch_form_the_next():
    batches = []

    async def ask():
        may_end = asyncio.Event()

        async def handle(items):
            batches.append(items)
            await may_end.wait()
            return [ValueError("odd") if item % 2 else item * 10 for item in items]

        coalescer = Coalescer(handle)
        first = asyncio.create_task(coalescer.answer(0))
        while not batches:
            await turn()
        others = [asyncio.create_task(coalescer.answer(number)) for number in (1, 2, 4)]
        await turn()
        others[1].cancel()
        may_end.set()
        return await asyncio.gather(first, *others, return_exceptions=True)

    zero, one, two, four = asyncio.run(ask())

    assert batches == [[0], [1, 2, 4]]
    assert (zero, str(one), four) == (0, "odd", 40)
    assert isinstance(two, asyncio.CancelledError)


def test_an_error_of_a_batch_is_the_answer_for_each_of_its_items():
    async def handle(items):
        raise OSError("gone")

    async def ask():
        coalescer = Coalescer(handle)
        tasks = [asyncio.create_task(coalescer.answer(number)) for number in (1, 2)]
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        with pytest.raises(OSError, match="gone"):
            await coalescer.answer(3)
        return answers

    assert [str(answer) for answer in asyncio.run(ask())] == ["gone", "gone"]


def test_concurrent_starts_share_commits_and_a_refused_one_affects_no_other(both):
    with Engine(both, workflows=WORKFLOWS, work=False) as engine:
        connect = ApiClient.maker(engine, app(engine))
        client = connect("admin")
        acme = connect("admin", namespace="acme")
        wrong = {"workflow": "server.double", "args": [1], "priority": 9999}

        async def start_all():
            asked = [
                client.ask("POST", "/runs", {"workflow": "server.double", "args": [number]})
                for number in range(20)
            ]
            asked.insert(7, client.ask("POST", "/runs", wrong))
            asked.append(acme.ask("POST", "/runs", {"workflow": "server.double"}))
            return await asyncio.gather(*asked)

        commits = engine._calls.open().writer.metrics.commit_size
        before = sum(commits.counts)
        answers = asyncio.run(start_all())
        made = sum(commits.counts) - before

        refused = answers.pop(7)
        assert problem(refused) == "BadOption"
        assert {answer.status_code for answer in answers} == {201}
        assert engine.runs(namespace="default").count() == 20
        assert engine.runs(namespace="acme").count() == 1
    assert made < 20


def test_a_batch_looks_up_the_name_of_a_workflow_once_per_namespace(engine, monkeypatch):
    looked_up = []
    deployed = RunService.deployed

    def noted(self, namespace, name, version=None):
        looked_up.append((namespace, name, version))
        return deployed(self, namespace, name, version)

    monkeypatch.setattr(RunService, "deployed", noted)
    parts = engine._calls.open()
    starts = [
        RequestedStart(parts, "elsewhere", [number], {}, options)
        for number, options in enumerate([{}, {}, {"namespace": "acme"}, {"version": "2"}, {}])
    ]

    started = commit_all(parts, starts)

    assert looked_up == [
        ("default", "elsewhere", None),
        ("acme", "elsewhere", None),
        ("default", "elsewhere", "2"),
    ]
    assert [engine.run(each.id).record.version for each in started] == ["1", "1", "1", "2", "1"]


def test_head_and_body_leave_in_one_write():
    class Written:
        def __init__(self):
            self.data = []
            self.closed = False

        def write(self, data):
            self.data.append(data)

        def close(self):
            self.closed = True

        def is_closing(self):
            return self.closed

        def abort(self):
            self.data.clear()

        def get_write_buffer_size(self):
            return 7

    async def write():
        transport = Written()
        joined = JoinedWrites(transport)
        joined.write(b"head ")
        joined.write(b"body")
        before = list(transport.data)
        await turn()
        joined.write(b"x" * (MOST_WAITING + 1))
        large = len(transport.data)
        joined.write(b"end")
        joined.close()
        joined.write(b"late")
        await turn()
        return before, large, transport, joined.get_write_buffer_size()

    before, large, transport, size = asyncio.run(write())

    assert before == [] and large == 2 and size == 7
    assert [len(data) for data in transport.data] == [9, MOST_WAITING + 1, 3]
    assert transport.closed
