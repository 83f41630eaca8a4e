import sqlite3
from contextlib import closing

from examples.fenced_payment.workflow import main, open_bank, pay_rent


def test_every_month_is_paid_once_whatever_crashes(crash_everywhere, tmp_path):
    ledger = str(tmp_path / "bank.db")

    def begin_anew():
        with closing(sqlite3.connect(ledger)) as db:
            db.executescript(
                "DELETE FROM transfer; DELETE FROM fence_effect; DELETE FROM fence_generation;"
            )

    def check(_):
        with closing(sqlite3.connect(ledger)) as db:
            assert db.execute("SELECT count(*), sum(amount) FROM transfer").fetchone() == (2, 1800)

    with open_bank(ledger) as bank:
        crash_everywhere(pay_rent, bank, 2, setup=begin_anew, check=check)


def test_the_program_runs(tmp_path, capsys):
    main(str(tmp_path / "engine.db"), str(tmp_path / "bank.db"))

    assert capsys.readouterr().out == "2 transfers\n"
