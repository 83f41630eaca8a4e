"""Create the triggers by which an encrypted PostgreSQL database refuses values in clear."""

from __future__ import annotations

from holdfast.store.clear_values import CLEAR_VALUES, GUARDS, REFUSAL, TRACEBACK, Guard
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.errors import ENCRYPTED

_OWNED = """SELECT COUNT(*) AS foreign FROM pg_catalog.pg_class WHERE relkind IN ('r', 'p') AND NOT
    pg_has_role(relowner, 'USAGE')
   AND relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'holdfast')"""
_FUNCTION = f"""CREATE OR REPLACE FUNCTION holdfast.refuse_clear_value() RETURNS trigger LANGUAGE
    plpgsql AS $refuse$ BEGIN
    IF EXISTS (SELECT 1 FROM holdfast.setting WHERE name = '{CLEAR_VALUES}')
        OR NOT EXISTS (SELECT 1 FROM holdfast.setting WHERE name = 'encryption') THEN RETURN NEW;
        END IF;
    RAISE EXCEPTION USING ERRCODE = '{ENCRYPTED}', MESSAGE = '{REFUSAL}'; END $refuse$"""


def refuse_clear_values(db: Connection) -> bool:
    """Create the triggers in the open transaction.

    Return False if the tables belong to another role, because only their owner may create triggers.
    """
    if db.rows(_OWNED)[0]["foreign"]:
        return False
    tables = ", ".join(sorted({f"holdfast.{guard.table}" for guard in GUARDS}))
    # The mode that CREATE TRIGGER takes, so that no lock is upgraded later, which could deadlock.
    lock = f"LOCK TABLE {tables} IN SHARE ROW EXCLUSIVE MODE"
    db.script(
        "; ".join(
            [lock, _FUNCTION, *(statement for guard in GUARDS for statement in _trigger(guard))]
        )
    )
    return True


def _trigger(guard: Guard) -> list[str]:
    name = f"clear_{guard.column}"
    table = f"holdfast.{guard.table}"
    event = f"UPDATE OF {guard.column}" if guard.updates else "INSERT"
    return [
        f"DROP TRIGGER IF EXISTS {name} ON {table}",
        (
            f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW WHEN"
            f" ({_condition(guard)}) EXECUTE FUNCTION holdfast.refuse_clear_value()"
        ),
    ]


def _condition(guard: Guard) -> str:
    value = f"NEW.{guard.column}"
    first = f"substring({value} FROM 1 FOR 1) <> decode('00', 'hex')"
    parts = [
        f"({first} OR substring({value} FROM 1 FOR 2) = decode('0000', 'hex'))",
        f"length({value}) > 0",
    ]
    if guard.kinds:
        names = ", ".join(f"'{kind}'" for kind in guard.kinds)
        parts.insert(0, f"NEW.kind IN ({names})")
    if guard.updates:
        parts.append(f"{value} IS DISTINCT FROM OLD.{guard.column}")
    if guard.traced:
        parts.append(f"position(convert_to('{TRACEBACK}', 'UTF8') IN {value}) > 0")
    return " AND ".join(parts)
