import pytest
from examples.webhook_callback.workflow import calls, collect_payment, main, receive

from holdfast.errors import RunCancelled

PAID = {"status": "paid", "amount": 120}


@pytest.fixture(autouse=True)
def _nobody_was_asked():
    calls.clear()


def test_the_provider_calls_back(holdfast_lab):
    run = holdfast_lab.start(collect_payment, 7, 120)
    holdfast_lab.run_until_idle()
    path, token = calls[0]

    assert receive(holdfast_lab.engine, path, token, {"status": "pending"}, "r1") == (
        200,
        "ignored",
    )
    holdfast_lab.advance("6d")
    assert receive(holdfast_lab.engine, path, token, PAID, "r2") == (200, "satisfied")
    assert receive(holdfast_lab.engine, path, token, PAID, "r2") == (200, "satisfied")
    assert holdfast_lab.finish(run)["told by"] == "provider"
    assert receive(holdfast_lab.engine, path, token, PAID, "r3") == (410, "too late")


def test_a_stranger_learns_nothing(holdfast_lab):
    holdfast_lab.start(collect_payment, 7, 120)
    holdfast_lab.run_until_idle()
    path, token = calls[0]

    tries = [(path, "no"), ("/callbacks/none", token), ("/callbacks/none", "no")]
    assert {receive(holdfast_lab.engine, *one, PAID, "r1") for one in tries} == {(404, "not found")}


def test_the_bank_may_know_first(holdfast_lab):
    run = holdfast_lab.start(collect_payment, 7, 120)
    holdfast_lab.run_until_idle()

    holdfast_lab.engine.signal(run.id, "booked", {"amount": 120}, source="bank")

    assert holdfast_lab.finish(run)["told by"] == "bank"


def test_after_a_week_it_is_given_up(holdfast_lab, capsys):
    run = holdfast_lab.start(collect_payment, 7, 120)

    with pytest.raises(RunCancelled):
        holdfast_lab.finish(run)
    assert capsys.readouterr().out == "given up: payment of order 7\n"


def test_a_crash_anywhere_changes_nothing(crash_everywhere):
    def provider_calls(lab):
        receive(lab.engine, *calls[-1], PAID, "r1")

    crash_everywhere(collect_payment, 7, 120, signals=[provider_calls])


def test_the_program_runs(tmp_path, capsys):
    main(str(tmp_path / "webhook.db"))

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("it waits for any of (the wait 'callback' with")
    assert lines[1:5] == [
        "stranger (404, 'not found')",
        "provider (200, 'ignored')",
        "provider (200, 'satisfied')",
        "provider (200, 'satisfied')",
    ]
    assert "'told by': 'provider'" in lines[5]
