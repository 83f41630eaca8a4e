# Generated from connect/database.py by tools/generate_blocking.py: do not edit.
"""``engine.database``: check the database, and copy runs out of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from holdfast.connect.backup import BackupReport, back_up
from holdfast.connect.calls import Calls
from holdfast.connect.components import Components
from holdfast.connect.open_store import open_store
from holdfast.payloads.verify import PayloadReport, check_payloads
from holdfast.service.export import export
from holdfast.store.database import CheckProgress
from holdfast.store.installation import ENCRYPTION
from holdfast.store.store import Store
from holdfast.views.storage import TableSizeView, tables_of


def facts_of(store: Store) -> dict[str, Any]:
    """Return facts about a database: the kind of store, driver, version, size, settings, seal."""
    totals = store.payloads.totals()
    facts = {
        **store.info(),
        "payloads": totals["payloads"],
        "payload_bytes": totals["stored"],
    }
    if store.installation.setting(ENCRYPTION) is not None:
        facts["encrypted"] = True
    seal = store.installation.seal()
    if seal is not None:
        facts["sealed"] = f"its runs continue in {seal.moved_to or seal.copied_from}"
    return facts


class EngineDatabase:
    """The database of an ``Engine``."""

    def __init__(self, calls: Calls) -> None:
        self._calls: Calls = calls

    def check(self, progress: CheckProgress | None = None) -> list[str]:
        """Check the database and return a message for each damaged row and each violated invariant;
        an empty list means that it is sound. *progress* is called in the thread that checks, with
        the number of checks made, and of all checks. Raises NamespaceBound."""

        def check(parts: Components) -> list[str]:
            parts.client.require_unbound("database.check")
            return parts.check(progress)

        return self._calls.call(check)

    def info(self) -> dict[str, Any]:
        """Return facts about the database: ``store`` is "sqlite" or "postgres", ``shared`` says
        whether workers of several hosts can use it, ``installation`` is its id; the others are
        those of `holdfast db info`. All features work on both stores. Raises NamespaceBound."""

        def read(parts: Components) -> dict[str, Any]:
            parts.client.require_unbound("database.info")
            facts = facts_of(parts.store)
            is_file = "sqlite" in facts
            return {
                "store": "sqlite" if is_file else "postgres",
                "shared": not is_file,
                "installation": parts.store.installation.id(),
                **facts,
            }

        return self._calls.call(read)

    def sizes(self) -> list[TableSizeView]:
        """Return how many bytes each table takes, with its indexes, the largest first. SQLite reads
        the whole file for it. Raises NamespaceBound."""

        def read(parts: Components) -> list[TableSizeView]:
            parts.client.require_unbound("database.sizes")
            return tables_of(parts.store.installation.table_sizes())

        return self._calls.call(read)

    def check_payloads(self, progress: Callable[[int], None] | None = None) -> PayloadReport:
        """Read and decrypt every payload that is stored apart from its row, and report the damaged
        ones. Raises NamespaceBound."""
        report = self._calls.reporter(progress)

        def check(parts: Components) -> PayloadReport:
            parts.client.require_unbound("database.check_payloads")
            return check_payloads(parts.store, parts.sealer, report)

        return self._calls.call(check)

    def backup(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        progress: CheckProgress | None = None,
    ) -> BackupReport:
        """Copy the SQLite file, as it stands at one instant, to the new file *path*, while workers
        go on, and return a report. An existing file is replaced only with *overwrite*. *progress*
        is called in the thread that copies, with the number of pages copied, and of all pages.

        The copy is checked, and sealed until `holdfast db unseal`, because its runs continue in
        this database. Raises NamespaceBound, BadOption, StoreUnavailable."""

        def copy(parts: Components) -> BackupReport:
            parts.client.require_unbound("database.backup")
            return back_up(
                parts.store, path, codec=parts.codec.name, overwrite=overwrite, progress=progress
            )

        return self._calls.call(copy)

    def export(
        self,
        run_id: str,
        path: str | os.PathLike[str],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Copy a run and its descendants to a new database file, and return the number of runs
        copied.

        The file opens like any other database. If one of the runs has not ended, the file refuses
        writes (StoreSealed), because that run continues in this database. Raises RunNotFound.
        """
        report = self._calls.reporter(progress)

        def copy(parts: Components) -> int:
            run = parts.client.get(run_id)
            return export(
                parts.store,
                parts.sealer,
                run,
                lambda: open_store(path, codec=parts.codec.name),
                report,
            )

        return self._calls.call(copy)
