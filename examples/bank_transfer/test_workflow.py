import pytest
from examples.bank_transfer.workflow import balances, main, move, open_accounts, transfer_money

import holdfast
from holdfast import step, workflow
from holdfast.errors import RunFailed


@step(transactional=True)
def found_bank() -> None:
    db = holdfast.sql.connection()
    db.execute("CREATE TABLE account (name TEXT PRIMARY KEY, balance INTEGER NOT NULL)")
    db.execute("INSERT INTO account VALUES ('ann', 100), ('bob', 0)")


@workflow
async def first_transfer(amount: int) -> int:
    await found_bank.aio()
    return await move.aio("ann", "bob", amount)


def test_money_moves(holdfast_lab):
    open_accounts(holdfast_lab.path, {"ann": 100, "bob": 0})

    assert holdfast_lab.run_to_end(transfer_money, "ann", "bob", 30) == "dear bob, 30 came in"

    assert balances(holdfast_lab.path) == {"ann": 70, "bob": 30}


def test_a_transfer_that_is_not_covered_leaves_no_trace(holdfast_lab):
    open_accounts(holdfast_lab.path, {"ann": 100, "bob": 0})

    with pytest.raises(RunFailed):
        holdfast_lab.run_to_end(transfer_money, "ann", "bob", 101)

    assert balances(holdfast_lab.path) == {"ann": 100, "bob": 0}


def test_money_moves_exactly_once_whatever_crashes(crash_everywhere):
    def check(lab):
        assert balances(lab.path) == {"ann": 70, "bob": 30}

    crash_everywhere(first_transfer, 30, check=check)


def test_the_program_runs(tmp_path, capsys):
    main(str(tmp_path / "bank.db"))

    after = "{'ann': 70, 'bob': 30}"
    assert capsys.readouterr().out == f"dear bob, 30 came in {after}\nRunFailed {after}\n"
