import sqlite3
from contextlib import closing

from examples.fenced_ledger.workflow import book_all, main, open_ledger


def entries(ledger):
    with closing(sqlite3.connect(ledger)) as db:
        return db.execute("SELECT account, amount FROM entry").fetchall()


def test_what_is_booked_is_booked_once_whatever_crashes(crash_everywhere, tmp_path):
    ledger = str(tmp_path / "ledger.db")

    def begin_anew():
        open_ledger(ledger)
        with closing(sqlite3.connect(ledger)) as db:
            db.executescript(
                "DELETE FROM entry; DELETE FROM fence_effect; DELETE FROM fence_generation;"
            )

    def check(_):
        assert entries(ledger) == [("rent", 900), ("food", 60)]

    crash_everywhere(book_all, ledger, {"rent": 900, "food": 60}, setup=begin_anew, check=check)


def test_the_program_runs(tmp_path, capsys):
    main(str(tmp_path / "engine.db"), str(tmp_path / "ledger.db"))

    assert capsys.readouterr().out == "{'rent': 900, 'food': 60}\nFenced 7\n"
