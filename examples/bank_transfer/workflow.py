"""A bank in the same SQLite file: a transfer takes effect exactly once, whatever crashes.

A step with `transactional=True` writes on the connection of the transaction that records it. The
money and the record are committed together or not at all.

    python examples/bank_transfer/workflow.py
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing

import holdfast
from holdfast import Engine, Fail, step, workflow


@step(transactional=True)
def move(source: str, target: str, amount: int) -> int:
    """Move money and return the balance. If the step raises, its writes are rolled back."""
    db = holdfast.sql.connection()
    db.execute("UPDATE account SET balance = balance - ? WHERE name = ?", (amount, source))
    db.execute("UPDATE account SET balance = balance + ? WHERE name = ?", (amount, target))
    [[left]] = db.execute("SELECT balance FROM account WHERE name = ?", (source,)).fetchall()
    if left < 0:
        raise Fail(f"{source} has not enough money")
    return int(left)


@step
async def tell(name: str, amount: int) -> str:
    """Write to the customer. The mail is outside the database, so this happens at least once."""
    return f"dear {name}, {amount} came in"


@workflow
async def transfer_money(source: str, target: str, amount: int) -> str:
    """Move money, then write to the receiver."""
    await move.aio(source, target, amount)
    return await tell(target, amount)


def open_accounts(path: str, balances: dict[str, int]) -> None:
    """Make the table beside those of Holdfast."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(
            "CREATE TABLE IF NOT EXISTS account (name TEXT PRIMARY KEY, balance INTEGER NOT NULL)"
        )
        db.executemany("INSERT OR REPLACE INTO account VALUES (?, ?)", balances.items())


def balances(path: str) -> dict[str, int]:
    """Look at all accounts."""
    with closing(sqlite3.connect(path)) as db:
        return dict(db.execute("SELECT name, balance FROM account ORDER BY name").fetchall())


def main(path: str = "bank_transfer.db") -> None:
    """Transfer once, although it is requested twice with one key; then try to transfer too much."""
    open_accounts(path, {"ann": 100, "bob": 0})
    with Engine(path) as engine:
        for _ in range(3):
            run = engine.start(transfer_money, "ann", "bob", 30, key="invoice-7")
        print(run.result(), balances(path))
        try:
            engine.start(transfer_money, "ann", "bob", 1000).result()
        except holdfast.HoldfastError as error:
            print(type(error).__name__, balances(path))


if __name__ == "__main__":
    main(*sys.argv[1:])
