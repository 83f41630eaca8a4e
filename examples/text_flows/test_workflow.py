import shutil
from contextlib import closing

import pytest
from examples.text_flows.workflow import HERE, make_library

from holdfast.testing import Lab


@pytest.fixture
def flows(tmp_path):
    """The example in a folder of its own: its scripts write files."""
    for name in ("flows", "scripts", "programs"):
        shutil.copytree(HERE / name, tmp_path / name)
    shutil.copy(HERE / "holdfast.toml", tmp_path)
    library = make_library(tmp_path)
    assert library.problems == []
    assert [problem for problem in library.check() if problem.severity == "error"] == []
    with closing(Lab(tmp_path / "lab.db", workflows=[library])) as lab:
        lab.folder = tmp_path
        lab.library = library
        yield lab


def start(lab, name, inputs=None, **options):
    return lab.start(lab.library[name], inputs or {}, cwd=str(lab.folder), **options)


def keys(lab, run):
    return [step.step for step in lab.engine.run(run.id).steps()]


def test_the_audit_fixes_until_nothing_is_left(flows):
    run = start(flows, "nightly-audit", {"branch": "next"})
    flows.finish(run)

    assert keys(flows, run) == ["scan", "fixer", "scan", "fixer", "scan", "notify"]
    assert flows.engine.run(run.id).steps()[4].context == "0 findings on next"


def test_a_release_is_published_to_the_chosen_channel(flows):
    run = start(flows, "release-check", variables={"version": "2.0"})
    flows.run_until_idle()
    (gate,) = flows.engine.gates.list()
    assert gate.prompt == "Publish 2.0?"
    flows.engine.gates.approve(gate.id, by="ann", selections=["beta"])
    flows.finish(run)

    steps = flows.engine.run(run.id).steps()
    child = flows.engine.run(steps[-1].run)
    assert child.record.input["args"][0] == {"channel": "beta"}
    assert [step.status for step in steps][3] == "skipped"


def test_tickets_are_worked_on_in_their_order(flows):
    run = start(flows, "sweep-tickets")
    flows.finish(run)

    (work,) = flows.engine.run(run.id).steps()
    assert [item["item"] for item in work.items] == ["T-1", "T-2"]


def test_a_merge_waits_for_green_checks(flows):
    run = start(flows, "merge-when-green", {"pr_number": "7"})
    flows.run_until_idle()
    flows.advance("1d")
    assert flows.engine.run(run.id).status == "waiting"
    (flows.folder / "green").touch()
    flows.advance("31s")
    flows.finish(run)

    assert keys(flows, run) == ["pr_checks", "merge"]


def test_a_payment_that_comes_in_time(flows):
    run = start(flows, "collect-payment", {"amount": "2000", "level": "urgent"})
    flows.run_until_idle()
    flows.signal(run, "paid", {"receipt": "r-1"})

    assert flows.finish(run)["output"] == {"receipt": "r-1", "note": "phone done"}


def test_a_payment_that_does_not_come_is_reminded_of(flows):
    run = start(flows, "collect-payment", {"amount": 10})
    flows.finish(run)

    assert keys(flows, run) == ["send-invoice", "paid", "remind", "sleep", "emit"]


def test_files_are_items(flows):
    run = start(flows, "digest-files")
    flows.finish(run)

    (each,) = flows.engine.run(run.id).steps()
    assert len(each.items) == 7


def test_an_upload_is_withdrawn_if_the_announcement_fails(flows):
    @flows.library.executor("announce")
    def announce(call):
        raise ConnectionError("no network")

    run = start(flows, "publish-release", {"channel": "beta"})
    with pytest.raises(Exception, match="no network"):
        flows.finish(run)

    assert keys(flows, run) == ["upload", "announce", "withdraw-upload"]
