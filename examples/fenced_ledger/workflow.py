"""A ledger in a database of its own, to which a worker that was declared dead cannot write.

The engine refuses writes of an old generation to a run, but it does not see other databases.
`fencing.first` records the generation of the running step in the transaction: a worker that has
lost its run is refused, and work that was committed before is not repeated.

    python examples/fenced_ledger/workflow.py
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing

from holdfast import Engine, fencing, step, workflow


@step(retries=3, delay="50ms")
def book(ledger: str, account: str, amount: int) -> int:
    """Book an amount, once, and return what is in the account."""
    with closing(sqlite3.connect(ledger)) as db, db:
        if fencing.first(db):
            db.execute("INSERT INTO entry VALUES (?, ?)", (account, amount))
        return int(
            db.execute("SELECT sum(amount) FROM entry WHERE account = ?", (account,)).fetchone()[0]
        )


@workflow
async def book_all(ledger: str, amounts: dict[str, int]) -> dict[str, int]:
    """Book one amount after another."""
    return {account: await book.aio(ledger, account, amount) for account, amount in amounts.items()}


def open_ledger(path: str) -> None:
    """Make the tables: those of fencing, and our own."""
    with closing(sqlite3.connect(path)) as db:
        db.executescript(fencing.TABLES)
        db.execute(
            "CREATE TABLE IF NOT EXISTS entry (account TEXT NOT NULL, amount INTEGER NOT NULL)"
        )
        db.commit()


def main(path: str = "fenced_ledger.db", ledger: str = "ledger.db") -> None:
    """Book two amounts; then try to write as a worker that has lost the run."""
    open_ledger(ledger)
    with Engine(path) as engine:
        run = engine.start(book_all, ledger, {"rent": 900, "food": 60})
        print(run.result())
    with closing(sqlite3.connect(ledger)) as db:
        fencing.admit(db, fencing.Fence(run.id, 7, "taken over"))
        try:
            fencing.admit(db, fencing.Fence(run.id, 6, "late"))
        except fencing.Fenced as refused:
            print(type(refused).__name__, refused.facts["newer"])


if __name__ == "__main__":
    main(*sys.argv[1:])
