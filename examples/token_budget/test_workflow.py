from examples.token_budget.workflow import main, report

TOPICS = ["kelp", "tides", "rocks"]


def test_the_agent_parks_when_its_tokens_do_not_suffice_and_goes_on_when_there_are_more(
    holdfast_lab,
):
    run = holdfast_lab.start(report, TOPICS, budget={"tokens": 2000})
    holdfast_lab.run_until_idle()
    assert run.status == "blocked"
    assert run.why().remedy == f"holdfast budgets raise tree:{run.id} tokens=200"

    holdfast_lab.engine.budgets.raise_limits(f"tree:{run.id}", {"tokens": 200})

    assert holdfast_lab.finish(run) == "Untitled: notes on kelp; notes on tides; notes on rocks"
    assert holdfast_lab.engine.budgets.usage(run.id).total == {"tokens": 1800}


def test_with_tokens_enough_it_has_a_title(holdfast_lab):
    assert holdfast_lab.run_to_end(report, TOPICS, budget={"tokens": 5000}).startswith(
        "All about kelp"
    )


def test_a_crash_anywhere_changes_nothing(crash_everywhere):
    def spent(lab):
        (run,) = list(lab.engine.runs())
        assert lab.engine.budgets.usage(run.id).total == {"tokens": 1850}

    crash_everywhere(report, TOPICS, options={"budget": {"tokens": 5000}}, check=spent)


def test_the_program_runs(tmp_path, capsys):
    main(str(tmp_path / "budget.db"))

    first, second, third = capsys.readouterr().out.splitlines()
    assert (
        first == "there is no room in the budget tree:RUN: 1200 of 2000 tokens are used, step"
        " 'research#3' wants 1000"
    )
    assert second.startswith("All about kelp") or second.startswith("Untitled")
    assert third in ("1850", "1800")
