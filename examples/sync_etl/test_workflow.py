import json

from examples.sync_etl.workflow import PAGES, load_feed, main


def test_the_pages_are_loaded_in_order(holdfast_lab, tmp_path):
    target = tmp_path / "feed.json"

    result = holdfast_lab.run_to_end(load_feed, str(target), sorted(PAGES))

    assert result == {"rows": 9, "total": 45}
    assert json.loads(target.read_text("utf-8")) == list(range(1, 10))


def test_a_crash_anywhere_changes_nothing(crash_everywhere, tmp_path):
    target = tmp_path / "feed.json"

    def check(lab):
        assert json.loads(target.read_text("utf-8")) == list(range(1, 7))

    crash_everywhere(
        load_feed, str(target), [1, 2], setup=lambda: target.unlink(missing_ok=True), check=check
    )


def test_the_program_runs(tmp_path, capsys):
    main(str(tmp_path / "etl.db"), str(tmp_path / "feed.json"))

    assert capsys.readouterr().out.splitlines()[0] == "{'rows': 9, 'total': 45}"
