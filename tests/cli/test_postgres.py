"""``holdfast`` on PostgreSQL: which rights a role lacks, and one clear line for whatever else is
wrong."""

from __future__ import annotations

from itertools import count

import pytest

from holdfast.store.postgres import PostgresDatabase, connection
from holdfast.store.store import Store
from holdfast.testing.postgres import name_of, postgres

numbers = count(1)


@pytest.fixture
def empty(postgres_server):
    url = postgres_server.new_database()
    yield url
    postgres_server.execute(f'DROP DATABASE "{name_of(url)}" WITH (FORCE)')


@pytest.fixture
def guest(postgres_server, empty):
    """A role that may nothing but connect, and its URL. Its name needs quotes."""
    name = f"Guest {next(numbers)}"
    postgres_server.execute(f'DROP ROLE IF EXISTS "{name}"; CREATE ROLE "{name}" LOGIN')
    postgres_server.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC", empty)
    yield empty.replace("user=postgres", f"user={name.replace(' ', '%20')}")
    postgres_server.execute(f'DROP OWNED BY "{name}"', empty)
    postgres_server.execute(
        f'REVOKE ALL ON DATABASE "{name_of(empty)}" FROM "{name}"; DROP ROLE "{name}"'
    )


@pytest.fixture(scope="module")
def standby():
    """A server that follows another one, which is gone: it can be read, and not written."""
    with postgres(durable=True) as server:
        url = server.new_store()
        server.stop("fast")
        (server.data / "standby.signal").touch()
        server.start()
        yield url


def works(call, url):
    """It opens, is migrated if it must be, and a run goes to its end."""
    assert call.text("--db", url, "run", "shop.py:parcel", '"a"').strip() == '"packed a"'
    assert call.json("--db", url, "doctor")["grants"] == []
    assert "no problems found" in call.text("--db", url, "doctor")


class TestRights:
    def told(self, call, url):
        """What doctor says in text is what it says as data."""
        data = call.json("--db", url, "doctor", code=1)
        text = call.text("--db", url, "doctor", code=1)
        assert data["ok"] is False and "lacks rights" in data["troubles"][0]["text"]
        assert [line.strip() for line in text.splitlines()[1:]] == [
            f"{grant};" for grant in data["grants"]
        ]
        return data["grants"]

    def mended(self, call, server, url, admin, *words):
        """Execute exactly what doctor says; then it works."""
        grants = self.told(call, url)
        assert len(grants) == len(words) and all(
            word in grant for word, grant in zip(words, grants, strict=True)
        ), grants
        for grant in grants:
            server.execute(grant, admin)
        works(call, url)

    def test_to_make_the_schema(self, call, postgres_server, guest, empty):
        assert "GRANT CREATE ON DATABASE" in call.error(
            "--db", guest, "run", "shop.py:parcel", '"a"'
        )

        self.mended(call, postgres_server, guest, empty, "GRANT CREATE ON DATABASE")

    def test_to_connect(self, call, postgres_server, guest, empty):
        postgres_server.execute(f'REVOKE CONNECT ON DATABASE "{name_of(empty)}" FROM PUBLIC')
        assert "GRANT CONNECT ON DATABASE" in call.error("--db", guest, "runs")

        grants = self.told(call, guest)
        assert len(grants) == 1 and grants[0].startswith("GRANT CONNECT ON DATABASE")
        postgres_server.execute(grants[0])
        self.mended(call, postgres_server, guest, empty, "GRANT CREATE ON DATABASE")

    def test_to_fill_a_schema_that_is_there(self, call, postgres_server, guest, empty):
        postgres_server.execute("CREATE SCHEMA holdfast", empty)

        self.mended(call, postgres_server, guest, empty, "GRANT USAGE, CREATE ON SCHEMA holdfast")

    def test_to_use_what_another_role_has_made(self, call, postgres_server, guest, empty):
        Store(PostgresDatabase(empty)).close()
        assert "lacks rights" in call.error("--db", guest, "runs")

        self.mended(
            call,
            postgres_server,
            guest,
            empty,
            "GRANT USAGE ON SCHEMA",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE holdfast.",
        )

    def test_to_write_where_it_can_only_read(self, call, postgres_server, guest, empty):
        Store(PostgresDatabase(empty)).close()
        role = f'"{guest.split("user=")[1].replace("%20", " ")}"'
        rights = (
            f"GRANT USAGE ON SCHEMA holdfast TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA"
            f" holdfast TO {role}"
        )
        postgres_server.execute(
            f"{rights}; GRANT INSERT, UPDATE, DELETE ON holdfast.event TO {role}", empty
        )
        assert call.json("--db", guest, "runs")["items"] == []
        assert "`holdfast doctor` prints the GRANT" in call.error(
            "--db", guest, "run", "shop.py:parcel", '"a"'
        )

        grants = self.told(call, guest)
        assert "SELECT" not in grants[0] and "holdfast.event" not in grants[0]
        self.mended(
            call, postgres_server, guest, empty, "GRANT INSERT, UPDATE, DELETE ON TABLE holdfast."
        )

    def test_to_bring_what_another_role_has_made_up_to_date(
        self, call, postgres_server, guest, empty
    ):
        postgres_server.execute("DROP ROLE IF EXISTS keeper; CREATE ROLE keeper LOGIN")
        postgres_server.execute("CREATE SCHEMA holdfast AUTHORIZATION keeper", empty)
        try:
            Store(PostgresDatabase(empty.replace("user=postgres", "user=keeper"))).close()
            tables = postgres_server.execute(
                "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = "
                "'holdfast'::regnamespace AND relname <> 'migration'",
                empty,
            )
            for (table,) in tables:
                postgres_server.execute(f"DROP TABLE holdfast.{table} CASCADE", empty)
            role = f'"{guest.split("user=")[1].replace("%20", " ")}"'
            postgres_server.execute("DELETE FROM holdfast.migration", empty)
            postgres_server.execute(f"GRANT USAGE ON SCHEMA holdfast TO {role}", empty)
            postgres_server.execute(f"GRANT SELECT ON holdfast.migration TO {role}", empty)

            self.mended(
                call,
                postgres_server,
                guest,
                empty,
                "GRANT CREATE ON SCHEMA",
                "GRANT keeper TO",
                "GRANT INSERT, UPDATE, DELETE ON",
            )
        finally:
            postgres_server.execute("DROP OWNED BY keeper CASCADE", empty)
            postgres_server.execute("DROP ROLE keeper")


@pytest.mark.parametrize(
    "words", [["runs"], ["doctor"], ["run", "shop.py:parcel", '"a"']], ids=lambda words: words[0]
)
class TestOneLine:
    """Whatever is wrong with the database: one line that says what to do, exit 1; 2 when the words
    themselves make no sense."""

    def test_a_url_that_makes_no_sense(self, call, words):
        for url in (
            "postgresql://a:s3cret@b:port/c",
            "postgresql://a:s3cret@b/c?nonsense=1",
            "mysql://a:s3cret@b/c",
        ):
            line = call.error("--db", url, *words, code=2)
            assert (
                "use a path, sqlite:///path or postgresql://host/name" in line
                and "s3cret" not in line
            )

    def test_no_server(self, call, words, tmp_path):
        assert "start it, or correct the address" in call.error(
            "--db", f"postgresql:///x?host={tmp_path}", *words
        )

    def test_no_such_host(self, call, words):
        assert "the host does not exist" in call.error(
            "--db", "postgresql://there.is.no.such.host.invalid/x", *words
        )

    def test_no_such_database(self, call, words, postgres_server):
        assert "create it with CREATE DATABASE" in call.error(
            "--db", postgres_server.url("nowhere"), *words
        )

    def test_no_such_role(self, call, words, empty):
        assert "create it with CREATE ROLE" in call.error(
            "--db", empty.replace("user=postgres", "user=nobody_knows"), *words
        )

    def test_another_encoding(self, call, words, postgres_server):
        postgres_server.execute(
            "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
        )
        try:
            assert "ENCODING 'UTF8' TEMPLATE template0" in call.error(
                "--db", postgres_server.url("latin"), *words
            )
        finally:
            postgres_server.execute("DROP DATABASE latin WITH (FORCE)")

    def test_an_old_server(self, call, words, empty, monkeypatch):
        monkeypatch.setattr(connection, "OLDEST", 990000)

        assert "too old: use version 14 or later" in call.error("--db", empty, *words)

    def test_a_schema_of_somebody_else(self, call, words, empty, guest, postgres_server):
        postgres_server.execute(
            "CREATE SCHEMA holdfast; CREATE TABLE holdfast.plant (id TEXT)", empty
        )

        for url in (empty, guest):
            assert "rename it, or use another database" in call.error("--db", url, *words)

    def test_a_newer_holdfast(self, call, words, empty, postgres_server):
        Store(PostgresDatabase(empty)).close()
        postgres_server.execute(
            "INSERT INTO holdfast.migration VALUES (9999, 'future', 'x', 1)", empty
        )

        assert "upgrade this one" in call.error("--db", empty, *words)

    def test_a_standby(self, call, words, standby):
        assert "connect to the primary" in call.error("--db", standby, *words)

    def test_all_connections_in_use(self, call, words, guest, postgres_server):
        role = guest.split("user=")[1].replace("%20", " ")
        postgres_server.execute(f'ALTER ROLE "{role}" CONNECTION LIMIT 0')

        assert "raise max_connections, or put a pooler in between" in call.error(
            "--db", guest, *words
        )


def test_a_database_that_was_made_read_only_can_be_looked_at(call, empty, postgres_server):
    Store(PostgresDatabase(empty)).close()
    postgres_server.execute(
        f'ALTER DATABASE "{name_of(empty)}" SET default_transaction_read_only TO on'
    )

    assert call.json("--db", empty, "runs")["items"] == []
    assert "target_session_attrs=read-write" in call.error(
        "--db", empty, "run", "shop.py:parcel", '"a"'
    )


def test_a_wrong_password_is_one_line_without_it(call, guest, postgres_server):
    rules = postgres_server.data / "pg_hba.conf"
    before = rules.read_text()
    role = guest.split("user=")[1].replace("%20", " ")
    rules.write_text(f'local all "{role}" scram-sha-256\n{before}')
    postgres_server.execute(f"ALTER ROLE \"{role}\" PASSWORD 'right'")
    postgres_server.restart("fast")
    try:
        line = call.error("--db", f"{guest}&password=wrong1", "doctor")
    finally:
        rules.write_text(before)
        postgres_server.restart("fast")
    assert "does not accept this user or password" in line and "wrong1" not in line
