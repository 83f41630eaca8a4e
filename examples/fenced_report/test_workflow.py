import shutil

from examples.fenced_report.workflow import daily_report, main


def test_the_report_is_whole_whatever_crashes(crash_everywhere, tmp_path):
    folder = tmp_path / "reports"

    def check(_):
        assert (folder / "monday.txt").read_text("utf-8") == "sold: 7\nreturned: 1"

    crash_everywhere(
        daily_report,
        str(folder),
        "monday",
        setup=lambda: shutil.rmtree(folder, ignore_errors=True),
        check=check,
    )


def test_the_program_runs(tmp_path, capsys):
    main(str(tmp_path / "engine.db"), str(tmp_path / "reports"))

    assert capsys.readouterr().out == "sold: 7\nreturned: 1\nFenced\n"
