"""Opening a PostgreSQL database: its schema is created once, a user without permission is told what
to do, and no password is shown."""

import traceback
from contextlib import closing, suppress

import psycopg
import pytest

from holdfast.connect.open_store import open_store
from holdfast.errors import (
    BadOption,
    BadUrl,
    CodecMismatch,
    EngineClosed,
    HoldfastError,
    LeaseLost,
    StoreBusy,
    StoreForeign,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
    StoreUnavailable,
)
from holdfast.store import sql_files
from holdfast.store.postgres import PostgresDatabase, address, connection
from holdfast.store.runs.operations import Advanced, Body, StartRuns
from holdfast.store.signals.operations import SignalRun
from holdfast.store.store import Store
from holdfast.testing.postgres import name_of
from tests.store.helpers import (
    WAITS,
    advance,
    furnished,
    in_threads,
    new,
    note,
    start,
    wait_until,
)

MIGRATIONS = sql_files.migrations("postgres")


@pytest.fixture
def url(postgres_server):
    with postgres_server.lend() as url:
        yield url


@pytest.fixture
def store(url):
    with closing(Store(PostgresDatabase(url))) as store:
        yield store


@pytest.fixture
def empty(postgres_server):
    url = postgres_server.new_database()
    yield url
    postgres_server.execute(f'DROP DATABASE "{name_of(url)}" WITH (FORCE)')


@pytest.fixture
def role(postgres_server, empty):
    """The URL of a role that may only connect."""
    postgres_server.execute("DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN")
    yield empty.replace("user=postgres", "user=guest")
    postgres_server.execute("DROP OWNED BY guest", empty)
    postgres_server.execute("DROP ROLE guest")


class TestMakingItReady:
    def test_ten_who_open_an_empty_database_at_once_make_it_ready_once(
        self, empty, postgres_server
    ):
        opened = []

        in_threads(*[lambda: opened.append(Store(PostgresDatabase(empty)))] * 10)

        for number, store in enumerate(opened):
            assert start(store, f"r{number}").created
            store.close()
        assert len({store.database.identity for store in opened}) == 1
        assert postgres_server.execute("SELECT COUNT(*) FROM holdfast.migration", empty) == [
            (len(MIGRATIONS),)
        ]

    def test_a_role_without_any_special_rights_suffices(self, role, empty, postgres_server):
        postgres_server.execute(f'GRANT CREATE ON DATABASE "{name_of(role)}" TO guest')
        postgres_server.execute("GRANT CREATE ON SCHEMA public TO guest", empty)

        with furnished(role) as store:
            assert store.info()["schema"] == MIGRATIONS[-1][0]
            assert store.liveness.acquire() >= 0

    def test_a_schema_that_was_made_for_it_suffices(self, role, postgres_server):
        postgres_server.execute(
            "CREATE SCHEMA holdfast AUTHORIZATION guest", role.replace("guest", "postgres")
        )

        with closing(Store(PostgresDatabase(role))) as store:
            assert start(store).created

    def test_who_may_not_make_the_schema_is_told_what_to_grant(self, role):
        with pytest.raises(
            StoreUnavailable,
            match=(
                r"GRANT CREATE ON DATABASE .* TO .guest., or CREATE SCHEMA holdfast AUTHORIZATION"
            ),
        ):
            Store(PostgresDatabase(role))

    def test_who_may_not_make_tables_in_it_is_told_what_to_grant(
        self, role, empty, postgres_server
    ):
        postgres_server.execute("CREATE SCHEMA holdfast", empty)

        with pytest.raises(StoreUnavailable, match="GRANT ALL ON SCHEMA holdfast"):
            Store(PostgresDatabase(role))

    def test_who_may_not_look_into_it_is_told_what_to_grant(self, role, empty, postgres_server):
        Store(PostgresDatabase(empty)).close()
        with pytest.raises(StoreUnavailable, match="GRANT USAGE ON SCHEMA holdfast"):
            Store(PostgresDatabase(role))

        postgres_server.execute("GRANT USAGE ON SCHEMA holdfast TO guest", empty)
        with pytest.raises(StoreUnavailable, match="lacks rights"):
            Store(PostgresDatabase(role))

    def test_who_may_only_read_is_told_when_it_writes(self, role, empty, postgres_server):
        with closing(Store(PostgresDatabase(empty))) as store:
            start(store)
        rights = (
            "GRANT USAGE ON SCHEMA holdfast TO guest; GRANT SELECT ON ALL TABLES IN SCHEMA holdfast"
            " TO guest"
        )
        postgres_server.execute(rights, empty)

        with closing(Store(PostgresDatabase(role))) as store:
            assert store.runs.get("r1") is not None
            with pytest.raises(StoreUnavailable, match="lacks rights"):
                start(store, "r2")

    def test_a_schema_of_somebody_else_is_left_alone(self, empty, postgres_server):
        postgres_server.execute(
            "CREATE SCHEMA holdfast; CREATE TABLE holdfast.run (id TEXT)", empty
        )

        with pytest.raises(StoreForeign, match="belongs to another program"):
            Store(PostgresDatabase(empty))
        assert postgres_server.execute(
            "SELECT COUNT(*) FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace", empty
        ) == [(1,)]

    def test_tables_of_others_live_beside_ours(self, empty, postgres_server):
        postgres_server.execute(
            "CREATE TABLE run (id TEXT); INSERT INTO run VALUES ('theirs')", empty
        )

        with closing(Store(PostgresDatabase(empty))) as store:
            start(store)
        assert postgres_server.execute("SELECT id FROM run", empty) == [("theirs",)]

    def test_looking_makes_nothing(self, empty, postgres_server):
        with pytest.raises(StoreUnavailable, match="no tables of Holdfast"):
            Store(PostgresDatabase(empty, create=False))

        assert postgres_server.execute(
            "SELECT COUNT(*) FROM pg_namespace WHERE nspname = 'holdfast'", empty
        ) == [(0,)]

    def test_a_newer_schema_is_refused(self, empty, postgres_server):
        Store(PostgresDatabase(empty)).close()
        postgres_server.execute(
            "INSERT INTO holdfast.migration VALUES (9999, 'future', 'x', 1)", empty
        )

        with pytest.raises(StoreTooNew):
            Store(PostgresDatabase(empty))

    def test_a_changed_migration_is_refused(self, empty, postgres_server):
        Store(PostgresDatabase(empty)).close()
        postgres_server.execute("UPDATE holdfast.migration SET checksum = 'other'", empty)

        with pytest.raises(StoreForeign):
            Store(PostgresDatabase(empty))

    def test_a_table_that_somebody_dropped_is_told(self, empty, postgres_server):
        with closing(Store(PostgresDatabase(empty))) as store:
            start(store, "before")
            postgres_server.execute("DROP TABLE holdfast.run", empty)
            with pytest.raises(StoreForeign):
                start(store)
            with pytest.raises(StoreForeign):
                store.runs.get("r1")

    def test_another_codec_is_refused(self, store, url):
        with pytest.raises(CodecMismatch) as refused:
            Store(PostgresDatabase(url, codec="secret"))

        assert (refused.value.facts["stored"], refused.value.facts["given"]) == ("json", "secret")

    def test_the_facts_warn_of_a_server_that_may_lose_what_was_committed(self, store):
        facts = store.info()

        assert (facts["server_encoding"], facts["fsync"], facts["schema"]) == (
            "UTF8",
            "off",
            MIGRATIONS[-1][0],
        )
        assert "fsync" in facts["warnings"][0]


class TestNotReached:
    def refused(self, url, kind=StoreUnavailable):
        with pytest.raises(kind) as refused:
            Store(PostgresDatabase(url))
        assert "\n" not in str(refused.value)
        return str(refused.value)

    def test_no_server_there(self, tmp_path):
        assert "no server answers at this address" in self.refused(
            f"postgresql:///x?host={tmp_path}"
        )
        assert "no server answers at this address" in self.refused("postgresql://127.0.0.1:1/x")

    def test_no_such_host(self):
        assert "the host does not exist" in self.refused(
            "postgresql://there.is.no.such.host.invalid/x"
        )

    def test_no_such_database(self, postgres_server):
        assert "CREATE DATABASE" in self.refused(postgres_server.url("nowhere"))

    def test_no_such_role(self, url):
        assert "CREATE ROLE" in self.refused(url.replace("user=postgres", "user=nobody_knows"))

    def test_a_wrong_password(self, role, postgres_server):
        rules = postgres_server.data / "pg_hba.conf"
        before = rules.read_text()
        rules.write_text(f"local all guest scram-sha-256\n{before}")
        postgres_server.execute("ALTER ROLE guest PASSWORD 'right'; SELECT pg_reload_conf()")
        try:
            wait_until(lambda: "user or password" in self.refused(f"{role}&password=wrong"))
            told = self.refused(f"{role}&password=wrong")
        finally:
            rules.write_text(before)
            postgres_server.execute("SELECT pg_reload_conf()")

        assert "wrong" not in told

    def test_too_many_connections(self, role, postgres_server):
        postgres_server.execute("ALTER ROLE guest CONNECTION LIMIT 0")

        assert "max_connections" in self.refused(role, StoreBusy)

    def test_another_encoding(self, postgres_server):
        postgres_server.execute(
            "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
        )
        try:
            assert "ENCODING 'UTF8'" in self.refused(postgres_server.url("latin"))
        finally:
            postgres_server.execute("DROP DATABASE latin WITH (FORCE)")

    def test_an_old_server(self, url, monkeypatch):
        monkeypatch.setattr(connection, "OLDEST", 990000)

        assert "is too old" in self.refused(url)

    def test_a_read_only_database(self, empty, postgres_server):
        postgres_server.execute(
            f'ALTER DATABASE "{name_of(empty)}" SET default_transaction_read_only TO on'
        )

        assert "primary" in self.refused(empty, StoreReadOnly)

    def test_a_missing_driver_is_told(self, monkeypatch):
        import sys

        for name in [name for name in sys.modules if name.startswith("holdfast.store.postgres")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "psycopg", None)
        with pytest.raises(BadUrl, match=r"pip install 'holdfast\[postgres\]'"):
            open_store("postgresql://x/y")


class TestUrls:
    SECRET = "s3cret"

    @pytest.mark.parametrize(
        "url",
        [
            "postgresql://ann:s3cret@there:77/shop?notify=off",
            "postgres://ann:s3cret@there:77/shop",
            "postgresql+psycopg://there:77/shop?user=ann&password=s3cret",
        ],
    )
    def test_a_url_is_understood_and_shown_without_its_password(self, url):
        parsed = address.read(url)

        assert (
            "password=s3cret" in parsed.conninfo
            and "user=ann" in parsed.conninfo
            and "port=77" in parsed.conninfo
        )
        assert self.SECRET not in parsed.shown and "there:77/shop" in parsed.shown
        assert parsed.notify is ("notify=off" not in url)

    def test_what_the_user_says_counts_more_than_what_we_would(self):
        assert "connect_timeout=3" in address.read("postgresql://x/y?connect_timeout=3").conninfo
        assert "application_name=holdfast" in address.read("postgresql://x/y").conninfo

    def test_a_listener_may_go_another_way(self, monkeypatch):
        direct = "postgresql://direct/y"
        assert "host=direct" in address.read(f"postgresql://pooler/y?listen={direct}").listen
        assert "host=direct" in address.read("postgresql://pooler/y", listen=direct).listen
        monkeypatch.setenv("HOLDFAST_LISTEN", direct)
        assert "host=direct" in address.read("postgresql://pooler/y").listen
        assert "host=pooler" in address.read("postgresql://pooler/y").conninfo

    @pytest.mark.parametrize(
        "url",
        [
            "postgresql://a:s3cret@b/c?nonsense=1",
            "postgresql://a:s3cret@b:port/c",
            "postgresql://a:s3cret@b/c?notify=perhaps",
            "postgresql://a:%zzs3cret@b/c",
            "postgresql://a:x/s3cret@b/c",
            "postgresql://a:x@s3cret@[b/c",
            "postgresql://a:s3cret",
            "postgresql:/a:s3cret@b/c",
            "postgres:a:s3cret@b/c",
            "host=b user=a password=s3cret",
        ],
    )
    def test_nonsense_is_refused_and_the_password_not_shown(self, url, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises((BadUrl, StoreUnavailable)) as refused:
            open_store(url)

        shown = "".join(traceback.format_exception(refused.value))
        assert self.SECRET not in "".join(
            line for line in shown.splitlines(keepends=True) if not line.startswith("    ")
        )
        assert list(tmp_path.iterdir()) == []

    def test_other_databases_are_not_known(self):
        with pytest.raises(BadUrl):
            open_store("mysql://a:s3cret@b/c")
        with pytest.raises(BadOption, match="files"):
            open_store("postgresql://b/c", driver="apsw")


class TestInTheMiddle:
    """Errors that a server may raise at any time."""

    def raising(self, server, url, code):
        """Make the server refuse every new event with the error *code*."""
        function = (
            "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no' USING"
            f" ERRCODE = '{code}'; END $$"
        )
        server.execute(
            f"{function}; CREATE TRIGGER no BEFORE INSERT ON holdfast.event FOR EACH ROW EXECUTE"
            " FUNCTION no()",
            url,
        )

    @pytest.mark.parametrize(
        ("code", "kind"), [("53100", StoreFull), ("25006", StoreReadOnly), ("57014", StoreBusy)]
    )
    def test_it_is_told_in_our_words_and_nothing_is_written(self, url, postgres_server, code, kind):
        with furnished(url) as store:
            self.raising(postgres_server, url, code)
            for ops in (
                [advance("a")],
                [advance("a"), advance("b", (1, 2))],
                [advance("a"), SignalRun("b", "paid", b"1")],
            ):
                with pytest.raises(kind):
                    store.apply(ops)
            assert (
                store.runs.history("a"),
                store.runs.history("b"),
                store.signals.of_run("b"),
            ) == ([], [], [])

            postgres_server.execute("DROP FUNCTION no CASCADE", url)
            assert isinstance(store.apply([advance("a")])[0], Advanced)

    def test_a_lock_that_is_kept_too_long_is_told_and_nothing_is_written(self, url, monkeypatch):
        monkeypatch.setattr(connection, "_SETTINGS", "SET lock_timeout TO '50ms'")
        with furnished(url) as store, psycopg.connect(url) as db:
            db.execute("SELECT 1 FROM holdfast.run WHERE id = 'a' FOR UPDATE")
            with pytest.raises(StoreBusy, match="idle transactions"):
                store.apply([advance("a")])
            db.rollback()

            assert isinstance(store.apply([advance("a")])[0], Advanced)

    def test_of_two_who_wait_for_each_other_we_try_again(self, url):
        with furnished(url) as store, psycopg.connect(url) as db:
            db.execute("SET LOCAL deadlock_timeout TO '60s'")
            db.execute("SELECT 1 FROM holdfast.run WHERE id = 'b' FOR UPDATE")
            answers = []

            def take_the_other():
                waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = %s"
                wait_until(lambda: db.execute(waits, (store.database._writer.pid,)).fetchall())
                db.execute("SELECT 1 FROM holdfast.run WHERE id = 'a' FOR UPDATE")
                db.rollback()

            signals = [SignalRun("a", "paid", b"1"), SignalRun("b", "paid", b"1")]
            in_threads(lambda: answers.extend(store.apply(signals)), take_the_other)

            assert [answer.new for answer in answers] == [True, True]

    @pytest.mark.parametrize("code", ["40001", "40P01"])
    def test_what_the_server_could_not_put_in_order_is_tried_again(self, empty, code):
        with furnished(empty) as store, psycopg.connect(empty, autocommit=True) as db:
            db.execute("CREATE SEQUENCE tries")
            db.execute(
                "CREATE FUNCTION refuse_twice() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF"
                f" nextval('tries') <= 2 THEN RAISE EXCEPTION 'not now' USING ERRCODE = '{code}';"
                " END IF; RETURN NEW; END $$"
            )
            db.execute(
                "CREATE TRIGGER refuse BEFORE INSERT ON holdfast.signal FOR EACH ROW EXECUTE"
                " FUNCTION refuse_twice()"
            )

            assert store.apply([SignalRun("a", "paid", b"1")])[0].new

            assert db.execute("SELECT last_value FROM tries").fetchone() == (3,)
            assert [signal.name for signal in store.signals.of_run("a")] == ["paid"]

    def test_a_signal_that_comes_while_its_run_is_parked_wakes_it(self, url):
        park = (
            "UPDATE holdfast.run SET status = 'waiting', waits = %s, session_id = NULL WHERE id"
            " = 'a'"
        )
        with furnished(url) as store, psycopg.connect(url) as db:
            db.execute(park, (WAITS,))

            def commit():
                waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = %s"
                wait_until(lambda: db.execute(waits, (store.database._writer.pid,)).fetchall())
                db.commit()

            in_threads(commit, lambda: store.apply([SignalRun("a", "paid", b"1")]))

            assert (store.runs.get("a").status, store.runs.get("a").revision) == ("pending", 1)
            assert [signal.name for signal in store.signals.of_run("a")] == ["paid"]

    def test_what_the_server_was_made_to_forget_is_told_to_it_again(self, url):
        with furnished(url) as store:
            for seq in range(1, 8):
                assert isinstance(store.apply([advance("a", [seq])])[0], Advanced)
                assert store.apply([SignalRun("b", "paid", b"1")])[0].number == seq
                if seq % 3 == 0:
                    store.database._writer.script("DEALLOCATE ALL")

            assert len(store.runs.history("a")) == 7

    def test_a_transaction_whose_error_was_passed_over_does_not_count_as_committed(self, url):
        with furnished(url) as store:
            db = store.database._writer
            db.begin()
            db.rows(
                "INSERT INTO holdfast.tag (name, value, run_id, created_at)"
                " VALUES ('who', 'me', 'a', 1) RETURNING name"
            )
            with suppress(psycopg.Error):
                db.rows("SELECT 1 / 0")
            with pytest.raises(HoldfastError, match="an error that was ignored"):
                db.commit()

            assert not db.rows("SELECT name FROM holdfast.tag")
            assert isinstance(store.apply([advance("a", [1])])[0], Advanced)

    def test_in_a_transaction_nothing_is_asked_for_that_the_server_was_made_to_forget(self, url):
        def alter(connection):
            connection.execute("ALTER TABLE note ADD COLUMN IF NOT EXISTS more TEXT")
            return note(connection)

        def write(store, body=None):
            seq = len(store.runs.history("c")) + 1
            lines = [advance(run, (2 * seq - 1, 2 * seq)) for run in ("a", "b")]
            answers = store.apply([*lines, advance("c", (seq,), body=Body(body or note))])
            return [type(answer) for answer in answers]

        with furnished(url) as store:
            pid = store.database._writer.pid
            for body in (None, None, None, None, alter, None, None, None, None):
                assert write(store, body) == [Advanced] * 3
            with pytest.raises(LeaseLost):
                raise store.apply([advance("none", (1, 2))])[0]
            assert write(store) == [Advanced] * 3

            assert store.database._writer.pid == pid

    def test_a_closed_store_says_so(self, url):
        store = Store(PostgresDatabase(url))
        store.changed()
        store.close()
        store.close()

        for use in (lambda: start(store), lambda: store.runs.get("r1"), store.changed, store.check):
            with pytest.raises(EngineClosed):
                use()

    def test_an_unforeseen_error_is_that_of_one_and_not_of_its_neighbours(self, url):
        with furnished(url) as store:
            answers = store.apply([advance("a"), StartRuns([new("with\x00nul")]), advance("b")])

            assert [type(answer) for answer in answers] == [Advanced, BadOption, Advanced]
            for runs in ([new("\x00")], [new("x"), new("y", tags={"\x00": ""})]):
                with pytest.raises(BadOption, match="NUL"):
                    raise store.apply([StartRuns(runs)])[0]
