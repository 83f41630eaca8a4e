import pytest
from examples.agent_loop import workflow as example
from examples.agent_loop.workflow import agent, main

QUESTION = "where is it dry?"


def test_the_agent_waits_for_a_person_before_it_spends_money(holdfast_lab):
    run = holdfast_lab.start(agent, QUESTION)
    holdfast_lab.run_until_idle()
    assert run.status == "waiting"

    holdfast_lab.signal(run, "approval", True)

    assert holdfast_lab.finish(run).endswith("booked Malmo")


def test_without_an_answer_within_a_day_it_goes_on_without_the_tool(holdfast_lab):
    assert holdfast_lab.run_to_end(agent, QUESTION).endswith("nobody agreed to book Malmo")


def test_no_answer_of_the_model_is_paid_for_twice(holdfast_lab, monkeypatch):
    asked = []
    think = example.think
    monkeypatch.setattr(
        example, "think", lambda messages: asked.append(len(messages)) or think(messages)
    )
    run = holdfast_lab.start(agent, QUESTION)
    holdfast_lab.run_until_idle()

    holdfast_lab.crash()
    holdfast_lab.signal(run, "approval", True)
    holdfast_lab.finish(run)

    assert asked == [1, 4, 6]


@pytest.mark.parametrize("early", [False, True])
def test_a_crash_anywhere_changes_nothing(crash_everywhere, early):
    crash_everywhere(agent, QUESTION, signals=[("approval", True)], early=early)


def test_the_program_runs(tmp_path, capsys):
    main(str(tmp_path / "agent.db"))

    assert capsys.readouterr().out.startswith("Bergen: rain; Malmo: sun; booked Malmo\n")
