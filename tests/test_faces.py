"""The two faces of the engine: the blocking one is generated, and both have the promised names."""

import inspect
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import BadOption, ResultTimeout

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
import generate_blocking

NAMESPACES = {
    "gates": "list get entries approve reject decide delegate reassign withdraw update link answer",
    "waits": "list get token deliver release",
    "schedules": "set get list pause resume remove trigger backfill next why",
    "budgets": "set get list remove raise_limits reset spend refund usage",
    "lanes": "set get list remove pause resume drain",
    "streams": "read tail list summary progress",
    "events": "read follow consume subscriptions unsubscribe",
    "webhooks": "set get list remove dead_letters redeliver",
    "retention": "set get list remove preview apply prune",
    "keys": "list rotate rekey",
    "api_keys": "add list revoke",
    "tasks": "worker lease revoke override prioritise",
    "graphs": "start get list extend cancel replay events why",
    "flows": (
        "create start advance wait resume finish fail cancel request_cancel observe steps events"
        " deliver get list prune why"
    ),
    "workers": "list unserved",
    "database": "check check_payloads backup export",
}
ENGINE = "work close start start_many run runs signal cancel why replay resume fork"
RUN = "status result signal cancel resume replay fork why history wait_until release record"


@pytest.mark.parametrize("source", generate_blocking.SOURCES)
def test_the_blocking_engine_is_generated_from_the_asynchronous_one(source):
    path = generate_blocking.BLOCKING / f"{generate_blocking.SOURCES[source]}.py"

    assert generate_blocking.is_current(path, generate_blocking.generated(source))


def test_no_other_file_is_among_the_generated_ones():
    names = {path.stem for path in generate_blocking.BLOCKING.glob("*.py")}

    assert names == {"__init__", *generate_blocking.SOURCES.values()}


def test_the_rewrite_keeps_comments_and_drops_the_colour():
    text = '''
class AsyncThing:
    """Used with ``async with AsyncThing()``."""

    async def __aenter__(self) -> AsyncThing:
        return await self.other()  # why

    async def all(self):
        """Say
        ``await all()``."""
        async for one in self._calls.async_things():
            yield one
'''

    assert (
        generate_blocking.rewrite(text)
        == '''
class Thing:
    """Used with ``with Thing()``."""

    def __enter__(self) -> Thing:
        return self.other()  # why

    def all(self):
        """Say
        ``all()``."""
        for one in self._calls.things():
            yield one
'''
    )


@pytest.mark.parametrize("face", [holdfast.Engine, holdfast.AsyncEngine])
@pytest.mark.parametrize("name", NAMESPACES)
def test_a_namespace_has_these_verbs(face, name, tmp_path):
    engine = face(tmp_path / "faces.db")

    assert set(NAMESPACES[name].split()) <= set(dir(getattr(engine, name)))
    if face is holdfast.Engine:
        engine.close()


@pytest.mark.parametrize("face", [holdfast.Engine, holdfast.AsyncEngine])
def test_an_engine_has_these_verbs(face):
    assert {name for name in vars(face) if not name.startswith("_")} == set(ENGINE.split())


@pytest.mark.parametrize("face", [holdfast.Run, holdfast.AsyncRun])
def test_a_run_has_these_verbs(face):
    assert set(RUN.split()) <= set(dir(face))


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (holdfast.Engine, "url work workflows namespace codec lanes capabilities concurrency"),
        (holdfast.Engine.start, "workflow id key lane priority delay deadline tags connection"),
        (holdfast.Engine.start_many, "workflow items lane priority delay deadline tags"),
        (holdfast.Engine.runs, "status workflow tags since until worker namespace parent_id roots"),
    ],
)
def test_options_are_named(call, names):
    assert set(names.split()) <= set(inspect.signature(call).parameters)


@pytest.mark.parametrize("name", NAMESPACES)
def test_no_option_of_a_namespace_is_hidden_in_a_dictionary(name, tmp_path):
    with closing(holdfast.Engine(tmp_path / "faces.db")) as engine:
        verbs = inspect.getmembers(type(getattr(engine, name)), inspect.isfunction)

    assert [
        verb
        for verb, function in verbs
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is inspect.Parameter.VAR_KEYWORD
        and verb != "submit"  # its other keywords are arguments of the task
    ] == []


def test_a_client_never_claims(tmp_path):
    with holdfast.Engine(tmp_path / "client.db", work=False) as client:
        run = client.start("served_elsewhere")

        assert run.status == "pending"
        assert client.workers.list() == []


@holdfast.workflow(name="faces.keyed")
async def keyed(key: str, id: int = 0) -> str:
    return f"{key} {id}"


def test_a_parameter_with_the_name_of_an_option_is_never_taken_silently(tmp_path):
    with holdfast.Engine(tmp_path / "clash.db", workflows=[keyed]) as engine:
        with pytest.raises(BadOption, match=r"keyed\.options"):
            engine.start(keyed, key="k", id=7)
        assert engine.runs().count() == 0

        run = engine.start(keyed.options(id="r1", key="once"), key="k", id=7)

        assert (run.id, run.result(timeout=20)) == ("r1", "k 7")
        assert engine.start(keyed, "k", 7).result(timeout=20) == "k 7"


def test_the_bulk_verbs_of_a_query_report_each_refusal(tmp_path):
    with closing(holdfast.Engine(tmp_path / "bulk.db", workflows=[])) as engine:
        runs = [engine.start("nothing", id=f"r{number}") for number in range(3)]
        runs[0].cancel()

        report = engine.runs().prioritise(7)

        assert report.done == ["r2", "r1"]
        assert list(report.refused) == ["r0"]
        assert engine.runs(status="pending").cancel("no longer needed").done == ["r2", "r1"]
        assert engine.runs().first().id == "r2"
        assert [run.id for run in engine.runs().page(after="r2", limit=1)] == ["r1"]


def test_a_setter_keeps_the_settings_that_a_call_does_not_name(tmp_path):
    with closing(holdfast.Engine(tmp_path / "set.db", workflows=[keyed])) as engine:
        engine.lanes.set("llm", concurrency=3, rate="10/s")
        engine.lanes.pause("llm")
        engine.lanes.set("llm", concurrency=None)
        lane = engine.lanes.get("llm")
        engine.retention.set("old", older_than="30d", keep_last=5)
        engine.retention.set("old", keep_last=None)
        rule = engine.retention.get("old")
        engine.schedules.set("often", keyed, interval="1h", args=("k",), overlap="queue")
        engine.schedules.set("often", priority=7)
        schedule = engine.schedules.get("often")

    assert (lane.concurrency, lane.rate, lane.paused) == (None, "10/s", True)
    assert (rule.older_than, rule.keep_last) == (timedelta(days=30), None)
    assert (schedule.priority, schedule.overlap, schedule.arguments) == (7, "queue", ["k"])
    assert "interval" in schedule.rule


def test_a_run_is_awaited_until_it_has_a_status(tmp_path):
    with closing(holdfast.Engine(tmp_path / "until.db", workflows=[])) as engine:
        run = engine.start("nothing")

        assert run.wait_until(["running", "pending"]) == "pending"
        with pytest.raises(ResultTimeout):
            run.wait_until("waiting", timeout=0.01)
        run.cancel()
        assert run.wait_until("waiting", timeout=60) == "cancelled"
