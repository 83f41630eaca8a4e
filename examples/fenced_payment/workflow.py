"""A payment over HTTP that is made once, and that a worker which has lost its run cannot make.

The step sends `Idempotency-Key`, which most payment services understand, and its generation. The
bank here is a server on this machine: it executes each key once, and refuses a generation that is
older than the newest it has seen.

    python examples/fenced_payment/workflow.py
"""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from holdfast import Engine, fencing, step, workflow


@step(retries=3, delay="50ms")
def transfer(bank: str, to: str, amount: int) -> int:
    """Ask the bank for a transfer. A repeated request gets the same answer."""
    body = json.dumps({"to": to, "amount": amount}).encode()
    request = urllib.request.Request(
        bank, data=body, headers={**fencing.headers(), "Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return int(json.load(answer)["transfers"])


@workflow
async def pay_rent(bank: str, months: int) -> int:
    """Pay month after month; return how many transfers the bank has made."""
    done = 0
    for _ in range(months):
        done = await transfer.aio(bank, "landlord", 900)
    return done


# The other side


class Bank(BaseHTTPRequestHandler):
    """A service with a database that refuses old generations; fencing takes three lines."""

    ledger = ""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            with closing(sqlite3.connect(self.ledger)) as db, db:
                if fencing.first(db, fencing.read_headers(self.headers)):
                    db.execute("INSERT INTO transfer VALUES (?, ?)", (asked["to"], asked["amount"]))
                (transfers,) = db.execute("SELECT count(*) FROM transfer").fetchone()
        except fencing.Fenced as refused:
            self.answer(409, {"error": str(refused)})
        else:
            self.answer(200, {"transfers": transfers})  # only now is it committed

    def answer(self, status: int, body: dict[str, object]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Log no request."""


@contextmanager
def open_bank(ledger: str) -> Iterator[str]:
    """Serve on a free port of this machine; the answer is the URL."""
    with closing(sqlite3.connect(ledger)) as db:
        db.executescript(fencing.TABLES)
        db.execute(
            "CREATE TABLE IF NOT EXISTS transfer (account TEXT NOT NULL, amount INTEGER NOT NULL)"
        )
        db.commit()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("OwnBank", (Bank,), {"ledger": ledger}))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def main(path: str = "fenced_payment.db", ledger: str = "bank.db") -> None:
    """Pay two months."""
    with open_bank(ledger) as bank, Engine(path) as engine:
        print(engine.start(pay_rent, bank, 2).result(), "transfers")


if __name__ == "__main__":
    main(*sys.argv[1:])
