"""Find the privileges that this role lacks, as GRANT statements for an administrator."""

from __future__ import annotations

import re
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from holdfast.errors import StoreUnavailable
from holdfast.store import sql_files
from holdfast.store.postgres import address
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.errors import TemporarilyUnavailable

_ROLE = """SELECT current_user AS role, current_database() AS database,
    has_database_privilege(current_database(), 'CREATE') AS creates,
    (SELECT COUNT(*) FROM pg_namespace WHERE nspname = 'holdfast') AS schemas"""
_SCHEMA = """SELECT has_schema_privilege(oid, 'USAGE') AS usage, has_schema_privilege(oid,
    'CREATE') AS create
  FROM pg_namespace WHERE nspname = 'holdfast'"""
_TABLES = """SELECT relname AS name, pg_get_userbyid(relowner) AS owner, pg_has_role(relowner,
    'USAGE') AS owns,
    has_table_privilege(oid, 'SELECT') AS "SELECT", has_table_privilege(oid, 'INSERT') AS "INSERT",
    has_table_privilege(oid, 'UPDATE') AS "UPDATE", has_table_privilege(oid, 'DELETE') AS "DELETE"
  FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'holdfast') AND
  relkind IN ('r', 'p')
 ORDER BY relname"""
_KINDS = ("SELECT", "INSERT", "UPDATE", "DELETE")


def missing(url: str) -> list[str]:
    """Return the statements that this role needs to use the database; empty if none, or if
    unknown."""
    address_of_database = address.read(url)
    try:
        db = Connection(address_of_database)
    except TemporarilyUnavailable:
        return []
    except StoreUnavailable as refused:
        return (
            _connecting(address_of_database.conninfo)
            if re.search("GRANT CONNECT", str(refused))
            else []
        )
    try:
        (who,) = db.rows(_ROLE)
        role = _quoted(who["role"])
        if not who["schemas"]:
            return (
                []
                if who["creates"]
                else [f"GRANT CREATE ON DATABASE {_quoted(who['database'])} TO {role}"]
            )
        return _within(db, role)
    finally:
        db.close()


def _connecting(conninfo: str) -> list[str]:
    options = conninfo_to_dict(conninfo)
    user = options.get("user")
    name = options.get("dbname") or options.get("user")
    return (
        [f"GRANT CONNECT ON DATABASE {_quoted(str(name))} TO {_quoted(str(user))}"] if user else []
    )


def _within(db: Connection, role: str) -> list[str]:
    """Return the missing privileges on the schema and its tables."""
    (schema,) = db.rows(_SCHEMA)
    tables = db.rows(_TABLES)
    if tables and not any(table["name"] == "migration" for table in tables):
        return []  # the schema belongs to another program: no privilege would help
    unfinished = not tables or _is_behind(db, tables, schema)
    kinds = [
        kind
        for kind, has in (
            ("USAGE", schema["usage"]),
            ("CREATE", schema["create"] or not unfinished),
        )
        if not has
    ]
    wanted = [f"GRANT {', '.join(kinds)} ON SCHEMA holdfast TO {role}"] if kinds else []
    if unfinished:  # only the owner of a table may alter it
        wanted += sorted(
            {f"GRANT {_quoted(table['owner'])} TO {role}" for table in tables if not table["owns"]}
        )
    return wanted + _on_tables(tables, role)


def _is_behind(db: Connection, tables: list[Any], schema: Any) -> bool:
    """Return whether migrations are pending, as far as this role can tell."""
    readable = schema["usage"] and any(
        table["name"] == "migration" and table["SELECT"] for table in tables
    )
    if not readable:
        return False
    applied = {row["number"] for row in db.rows("SELECT number FROM holdfast.migration")}
    return any(number not in applied for number, _, _ in sql_files.migrations("postgres"))


def _on_tables(tables: list[Any], role: str) -> list[str]:
    lacking = {table["name"]: [kind for kind in _KINDS if not table[kind]] for table in tables}
    names = [f"holdfast.{_quoted(name)}" for name, kinds in lacking.items() if kinds]
    kinds = [kind for kind in _KINDS if any(kind in lacks for lacks in lacking.values())]
    return [f"GRANT {', '.join(kinds)} ON TABLE {', '.join(names)} TO {role}"] if names else []


def _quoted(name: str) -> str:
    """Return a name as an SQL identifier, quoted only if necessary."""
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'
