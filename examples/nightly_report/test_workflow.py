from examples.nightly_report.workflow import SHOPS, main, nightly_report


def test_a_region_that_fails_is_reported_as_missing(holdfast_lab):
    report = holdfast_lab.run_to_end(nightly_report, sorted(SHOPS))

    assert report.splitlines() == ["north: 200", "south: 280", "west: missing"]


def test_each_region_is_a_run_of_its_own(holdfast_lab):
    run = holdfast_lab.start(nightly_report, ["north", "south"])
    holdfast_lab.finish(run)

    children = list(holdfast_lab.engine.runs(parent_id=run.id))

    assert [child.workflow for child in children] == ["region_report", "region_report"]
    assert {child.id for child in children} == {
        child.id for child in holdfast_lab.engine.runs(tags={"report": "nightly"})
    }


def test_a_report_of_nothing_is_empty(holdfast_lab):
    assert holdfast_lab.run_to_end(nightly_report, []) == ""


def test_a_crash_anywhere_changes_nothing(crash_everywhere):
    crash_everywhere(nightly_report, ["north", "west"])


def test_the_program_runs(tmp_path, capsys):
    main(str(tmp_path / "report.db"))

    assert capsys.readouterr().out.endswith("the same run: True; child runs: 3\n")
