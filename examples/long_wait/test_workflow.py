from examples.long_wait.workflow import main, subscription


def test_a_year_passes_in_a_moment(holdfast_lab):
    result = holdfast_lab.run_to_end(subscription, "ann")

    assert result == {"paid": 120, "days": 14 + 12 * 30, "ended": "a year is over"}


def test_it_ends_when_the_customer_has_had_enough(holdfast_lab):
    run = holdfast_lab.start(subscription, "ann")
    holdfast_lab.run_until_idle()
    holdfast_lab.advance("14d")
    holdfast_lab.advance("35d")

    holdfast_lab.signal(run, "cancel")

    assert holdfast_lab.finish(run) == {"paid": 20, "days": 49, "ended": "cancelled"}


def test_it_sleeps_through_a_restart(holdfast_lab):
    run = holdfast_lab.start(subscription, "ann", 1)
    holdfast_lab.run_until_idle()
    holdfast_lab.advance("10d")

    holdfast_lab.restart()
    holdfast_lab.run_until_idle()
    holdfast_lab.advance("10d")

    assert [
        event.step for event in holdfast_lab.history(run) if event.kind == "step_completed"
    ] == ["send", "send#2", "bill"]


def test_a_crash_anywhere_changes_nothing(crash_everywhere):
    crash_everywhere(subscription, "ann", 2)


def test_the_program_runs_and_can_be_started_again(tmp_path, capsys):
    path = str(tmp_path / "wait.db")

    main("start", path)
    main("cancel", path)

    waiting = "ann is waiting; come back when you like"
    assert capsys.readouterr().out.splitlines() == ["to ann: welcome", waiting, waiting]
