import pytest
from examples.two_person_approval.workflow import main, pay

from holdfast.errors import AlreadyDecided, NotYourGate

PAYMENT = {"to": "the printer", "amount": 120}


def asked(lab):
    run = lab.start(pay, PAYMENT, "ann")
    lab.run_until_idle()
    return run, lab.engine.gates.get(run.id)


def test_two_others_must_agree(holdfast_lab):
    run, gate = asked(holdfast_lab)
    engine = holdfast_lab.engine

    with pytest.raises(NotYourGate):
        engine.gates.approve(gate, by="ann")
    engine.gates.approve(gate, by="bob")
    with pytest.raises(AlreadyDecided):
        engine.gates.approve(gate, by="bob")
    engine.gates.approve(gate, by="carol")

    assert holdfast_lab.finish(run) == "sent 120, approved by bob and carol"


def test_one_who_says_no_is_enough_when_only_two_may_decide(holdfast_lab):
    run, gate = asked(holdfast_lab)

    holdfast_lab.engine.gates.reject(gate, by="bob", feedback="paid already")

    assert holdfast_lab.finish(run) == "not sent: paid already"


def test_dora_helps_out_after_two_days(holdfast_lab):
    run, gate = asked(holdfast_lab)
    holdfast_lab.engine.gates.approve(gate, by="bob")
    holdfast_lab.advance("2d")
    holdfast_lab.engine.gates.approve(gate, by="dora")

    assert holdfast_lab.finish(run) == "sent 120, approved by bob and dora"


def test_nothing_is_sent_when_nobody_answers(holdfast_lab):
    assert holdfast_lab.run_to_end(pay, PAYMENT, "ann") == "not sent: its time is over"


def test_a_crash_anywhere_changes_nothing(crash_everywhere):
    people = [
        lambda lab, gate, by=by: lab.engine.gates.approve(gate, by=by) for by in ("bob", "carol")
    ]

    crash_everywhere(pay, PAYMENT, "ann", people=people)


def test_the_program_runs_and_can_be_started_again(tmp_path, capsys):
    path = str(tmp_path / "approval.db")

    main("ask", path=path)
    for person in ("ann", "bob", "carol"):
        main("approve", person, path)

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        "it waits for ann, bob, carol, but not ann to decide: 'Send 120 to the printer?'; 2 more of"
        " 2 must agree"
    )
    assert "excluded" in lines[1]
    assert lines[3] == "bob: approve; the gate is open"
    # The worker may send the payment before the program has printed the decision.
    assert sorted(lines[5:7]) == [
        "carol: approve; the gate is approved",
        "sending 120 to the printer",
    ]
    assert lines[7:] == ["sent 120, approved by bob and carol"]
