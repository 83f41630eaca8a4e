"""Check a store for `db check`: damaged rows, broken laws and missing references."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from holdfast.core.envelope import digest_of
from holdfast.errors import BadData, RowDamaged
from holdfast.store import sql_files
from holdfast.store.damage import DamageQueries
from holdfast.store.database import CheckProgress
from holdfast.store.reader import Reader
from holdfast.store.rows import values_of
from holdfast.store.soundness import described

REFERENCES_RECORDED = "every payload reference of a run is recorded"
"""The law that ``_lost_references`` checks, in the words of `db check`."""


def damage_and_broken_laws(reader: Reader, progress: CheckProgress | None = None) -> list[str]:
    """Describe every damaged row, its place and its fault, and every law that does not hold."""
    queries = DamageQueries(reader)
    filled = queries.filled_tables()
    damages = [described(damage) for damage in queries.damaged_rows(tables=filled)]
    laws = {law: sql for law, sql in sql_files.laws().items() if _tables_of(sql) & filled}
    broken = _broken_laws(reader, progress, laws)
    # Last: a damaged reference must not hide the damage and the laws found before.
    try:
        return damages + broken + _lost_references(reader)
    except (RowDamaged, BadData) as error:
        return [
            *damages,
            *broken,
            f"{REFERENCES_RECORDED}: the check failed, because {error}",
        ]


@lru_cache(1000)
def _tables_of(sql: str) -> frozenset[str]:
    """Return the tables that a law reads. While all of them are empty, it holds: a new database
    satisfies every law."""
    return frozenset(re.findall(r"\bholdfast\.(\w+)\b(?!\()", sql))


LAWS_OF_LEASES = (
    "the_session_of_a_leased_run_exists",
    "a_leased_run_is_running_or_waiting_or_cancelling",
    "the_generation_of_a_leased_run_is_positive",
)
"""The laws whose queries read leased runs only."""


def broken_laws_of_leases(reader: Reader) -> list[str]:
    """Describe each law about leased runs that does not hold."""
    return _broken_laws(reader, None, {law: sql_files.laws()[law] for law in LAWS_OF_LEASES})


def _broken_laws(
    reader: Reader, progress: CheckProgress | None, laws: Mapping[str, str]
) -> list[str]:
    """Describe each law that does not hold, with the first rows that break it."""
    broken: list[str] = []
    for number, (law, sql) in enumerate(laws.items()):
        if progress is not None:
            progress(number, len(laws))
        values = {"now": reader.now()} if sql_files.parameters(sql) else ()
        try:
            rows = reader.fetch(reader.spelled(sql), values)
        except reader.dialect.garbled as error:
            broken.append(f"{law.replace('_', ' ')}: the check failed, because {error}")
            continue
        shown = ", ".join(str(values_of(row)[0]) for row in rows[:5])
        if rows:
            broken.append(f"{law.replace('_', ' ')}: {len(rows)} broken, such as {shown}")
    if progress is not None:
        progress(len(laws), len(laws))
    return broken


def _lost_references(reader: Reader) -> list[str]:
    """Describe the runs with a separately stored value to which no reference is recorded: its
    payload could be deleted."""
    recorded: dict[str, set[bytes]] = {}
    incomplete: set[str] = set()
    for row in reader.rows("all_sealed"):
        digest = digest_of(bytes(row["head"]))
        if digest is None:
            continue
        run_id = row["run_id"]
        # Read per run and only for runs with payloads, which few runs have.
        if run_id not in recorded:
            references = reader.rows("payloads_of_run", run_id=run_id)
            recorded[run_id] = {bytes(reference["digest"]) for reference in references}
        if digest not in recorded[run_id]:
            incomplete.add(run_id)
    if not incomplete:
        return []
    shown = ", ".join(sorted(incomplete)[:5])
    return [f"{REFERENCES_RECORDED}: {len(incomplete)} broken, such as {shown}"]
