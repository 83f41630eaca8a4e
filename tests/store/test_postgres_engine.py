"""An engine on PostgreSQL when things go wrong: the server restarts, a worker is killed, a
connection is lost."""

import signal
import subprocess
import sys
import threading
from contextlib import closing

import psycopg
import pytest

import holdfast
from holdfast import Engine, step, wait_signal, workflow
from holdfast.errors import StoreBusy
from holdfast.store.postgres import PostgresDatabase, notifier, reader
from holdfast.store.postgres.clock import DatabaseClock
from holdfast.store.store import Store
from holdfast.testing import internals
from holdfast.testing.postgres import name_of
from tests.store.helpers import wait_until
from tests.store.wire import ANSWER, wire

done = []
go_on = threading.Event()


@step(name="postgres.count")
def count(number: int) -> int:
    done.append(number)
    if number == 10:
        go_on.wait(20)
    return number


@workflow(name="postgres.counting")
async def counting(steps: int) -> int:
    return sum([await count.aio(number) for number in range(steps)])


@step(name="postgres.hang")
async def hang() -> str:
    return "went on elsewhere"


@workflow(name="postgres.hanging")
async def hanging() -> str:
    return await hang()


@workflow(name="postgres.patient")
async def patient() -> object:
    return await wait_signal("go")


HANG = """
import asyncio, sys
from holdfast import Engine, step, workflow

def say(what):
    sys.stdout.write(what + "\\n")
    sys.stdout.flush()

@step(name="postgres.hang")
async def hang() -> str:
    say("hanging")
    await asyncio.sleep(3600)

@workflow(name="postgres.hanging")
async def hanging() -> str:
    return await hang()

with Engine(sys.argv[1], session_ttl="1h") as engine:
    say(engine.start(hanging).id)
    sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def fresh():
    done.clear()
    go_on.clear()


@pytest.fixture
def url(postgres_server):
    with postgres_server.lend() as url:
        yield url


def test_a_run_survives_the_restart_of_the_server(restartable_server):
    with Engine(restartable_server.new_store(), workflows=[counting, patient]) as engine:
        waiting, run = engine.start(patient), engine.start(counting, 30)
        wait_until(lambda: len(done) == 11)
        restartable_server.restart("immediate")
        go_on.set()

        assert run.result(timeout=30) == sum(range(30))
        assert engine.signal(waiting.id, "go", 5)
        assert waiting.result(timeout=30) == 5
        assert done == list(range(30))
        assert engine.database.check() == []


def test_a_transactional_step_takes_effect_once_even_if_nobody_heard_that_it_was_committed(
    url, postgres_server, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(reader, "PATIENCE", 0.1)
    postgres_server.execute("CREATE TABLE note (text TEXT)", url)
    calls = []

    @step(transactional=True, name="postgres.pay")
    def pay() -> int:
        if not calls:
            line.cut(b"COMMIT", ANSWER)
            line.dead = True
        calls.append(holdfast.sql.connection().execute("INSERT INTO note VALUES ('paid')"))
        return 7

    @workflow(name="postgres.paying")
    async def paying() -> int:
        return await pay.aio()

    with (
        wire(postgres_server, tmp_path) as line,
        Engine(line.url(url), workflows=[paying]) as engine,
    ):
        run = engine.start(paying)
        wait_until(lambda: "cannot be written now" in caplog.text)
        monkeypatch.undo()
        line.dead = False

        assert run.result(timeout=20) == 7
        assert (len(calls), postgres_server.execute("SELECT COUNT(*) FROM note", url)) == (
            1,
            [(1,)],
        )
        assert engine.database.check() == []


def test_what_a_killed_worker_held_goes_on_elsewhere_long_before_its_session_expires(url):
    worker = subprocess.Popen(
        [sys.executable, "-c", HANG, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        said = {worker.stdout.readline().strip(), worker.stdout.readline().strip()}
        (run_id,) = said - {"hanging"}
        with Engine(url, workflows=[hanging]) as engine:
            assert engine.run(run_id).status == "running"
            worker.send_signal(signal.SIGKILL)
            worker.wait()

            assert (
                engine.run(run_id).result(timeout=60) == "went on elsewhere"
            )  # its session would last for an hour
    finally:
        worker.kill()
        worker.communicate()


def test_a_worker_whose_listener_was_killed_is_not_taken_for_dead(url, postgres_server):
    with Engine(url, workflows=[patient]) as engine, closing(Store(PostgresDatabase(url))) as other:
        (session,) = internals(engine).store.sessions.all()
        listener = internals(engine).store.database._notifier
        assert other.liveness.is_alive(session) is True
        postgres_server.execute(f"SELECT pg_terminate_backend({listener._db.pid}, 5000)")

        seen = [other.liveness.is_alive(session)]
        wait_until(lambda: seen.append(other.liveness.is_alive(session)) or seen[-1])
        assert False not in seen
        assert internals(engine).store.sessions.all() == [session]


def test_a_run_that_another_process_signals_is_woken_at_once(url, monkeypatch):
    monkeypatch.setattr(notifier, "LOOK_EVERY", 3600.0)  # nobody looks: it must be told
    with (
        Engine(url, workflows=[patient], poll="1h") as engine,
        Engine(url, workflows=[patient]) as other,
    ):
        run = engine.start(patient)
        wait_until(lambda: run.status == "waiting")
        other.signal(run.id, "go", 1)

        assert run.result(timeout=60) == 1


def test_an_engine_lives_by_the_clock_of_the_database(url):
    with Engine(url, workflows=[patient]) as engine:
        assert isinstance(internals(engine).clock, DatabaseClock)
        assert internals(engine).worker.clock is internals(engine).store.clock


SAY_NO = """CREATE FUNCTION say_no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.step = 'postgres.count#11' THEN RAISE 'no' USING ERRCODE = '{code}'; END IF; RETURN
        NEW; END $$;
    CREATE TRIGGER say_no BEFORE INSERT ON holdfast.event FOR EACH ROW EXECUTE FUNCTION say_no()"""


@pytest.mark.parametrize("code", ["53100", "53200", "53300", "57014", "25006"])
def test_a_run_waits_until_the_server_can_write_again(url, postgres_server, caplog, code):
    """The disk is full, memory or connections are used up, a statement takes too long, the server
    has become a standby."""
    go_on.set()
    postgres_server.execute(SAY_NO.format(code=code), url)
    with Engine(url, workflows=[counting]) as engine:
        run = engine.start(counting, 15)
        wait_until(lambda: f"run {run.id} cannot be written now" in caplog.text)
        assert run.status == "running"
        postgres_server.execute("DROP FUNCTION say_no CASCADE", url)

        assert run.result(timeout=30) == sum(range(15))
        assert done == list(range(15))
        assert engine.database.check() == []


def test_a_statement_that_takes_longer_than_the_server_allows_is_tried_again(
    url, postgres_server, caplog
):
    postgres_server.execute(f"ALTER DATABASE \"{name_of(url)}\" SET statement_timeout TO '300ms'")
    try:
        with Engine(url, workflows=[counting]) as engine, psycopg.connect(url) as db:
            run = engine.start(counting, 15)
            wait_until(lambda: len(done) == 11)
            db.execute("SET statement_timeout TO 0; SELECT 1 FROM holdfast.run FOR UPDATE")
            go_on.set()
            wait_until(lambda: "statement_timeout" in caplog.text)
            with pytest.raises(StoreBusy, match="statement_timeout"):
                engine.signal(run.id, "go")
            db.rollback()

            assert run.result(timeout=30) == sum(range(15))
            assert done == list(range(15))
            assert engine.database.check() == []
    finally:
        postgres_server.execute(f'ALTER DATABASE "{name_of(url)}" RESET statement_timeout')


def test_a_worker_that_finds_no_free_connection_goes_on_when_there_is_one(
    url, postgres_server, monkeypatch, caplog
):
    monkeypatch.setattr(reader, "PATIENCE", 0.1)
    postgres_server.execute("DROP ROLE IF EXISTS crowded; CREATE ROLE crowded LOGIN SUPERUSER")
    try:
        with Engine(url.replace("user=postgres", "user=crowded"), workflows=[counting]) as engine:
            run = engine.start(counting, 15)
            wait_until(lambda: len(done) == 11)
            # Nobody is let in any more, and those who are in are sent away.
            postgres_server.execute("ALTER ROLE crowded NOSUPERUSER CONNECTION LIMIT 0")
            postgres_server.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'crowded'"
            )
            go_on.set()
            wait_until(lambda: "max_connections" in caplog.text)
            monkeypatch.undo()
            postgres_server.execute("ALTER ROLE crowded SUPERUSER CONNECTION LIMIT -1")

            assert run.result(timeout=30) == sum(range(15))
            assert done == list(range(15))
            assert engine.database.check() == []
    finally:
        postgres_server.execute("DROP ROLE crowded")
