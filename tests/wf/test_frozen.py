"""A run keeps the text that it was started with, and the texts that it can call."""

from contextlib import closing

from holdfast import wf
from holdfast.core.status import Status
from holdfast.testing import Lab, internals

MAIN = """workflow main { call workflow part call old  gate human_review { prompt = "?" }
  call workflow part  call last }"""
PART = "workflow part { call piece }"


def library_of(folder, calls):
    library = wf.Library(folder, root=folder)

    @library.executor()
    def note(call):
        calls.append(call.name)

    return library


def test_edited_renamed_and_deleted_files_do_not_affect_a_run(database, tmp_path):
    calls = []
    flows = tmp_path / "flows"
    flows.mkdir()
    (flows / "main.wf").write_text(MAIN)
    (flows / "part.wf").write_text(PART)
    library = library_of(flows, calls)
    with closing(Lab(database, workflows=[library])) as lab:
        runs = [lab.start(library["main"]) for _ in range(3)]
        lab.settle()
        clock = lab.clock
        version = lab.engine.run(runs[0].id).record.version
        assert version == library["main"].version and len(version) == 12

    (flows / "main.wf").write_text("workflow main { call new }")
    (flows / "part.wf").rename(flows / "other.wf")
    other = library_of(flows, calls)
    with closing(Lab(database, clock=clock, workflows=[other])) as lab:
        fresh = lab.start(other["main"])
        lab.finish(fresh)
        (gate,) = lab.engine.gates.list(run=runs[0].id)
        lab.engine.gates.approve(gate.id, by="ann")
        lab.finish(runs[0])
        assert [step.step for step in lab.engine.run(runs[0].id).steps()] == [
            "part",
            "old",
            "human_review",
            "part",
            "last",
        ]

    (flows / "main.wf").unlink()
    (flows / "other.wf").unlink()
    empty = library_of(flows, calls)
    with closing(Lab(database, clock=clock, workflows=[empty])) as lab:
        (gate,) = lab.engine.gates.list(run=runs[1].id)
        lab.engine.gates.approve(gate.id, by="ann")
        lab.finish(runs[1])
        stored = internals(lab.engine).store.definitions
        assert len(stored.of_route("default", "main", version)) == 1

    assert sorted(calls[:6]) == ["old"] * 3 + ["piece"] * 3
    assert calls[6:] == ["new", "piece", "last", "piece", "last"]


def test_a_worker_without_the_executors_leaves_the_run_to_others(tmp_path):
    calls = []
    library = wf.Library(root=tmp_path)
    library.add("workflow alone { call a wait signal go call b }", path="alone.wf")
    library.executor("a")(lambda call: calls.append("a"))
    library.executor("b")(lambda call: calls.append("b"))
    with closing(Lab(tmp_path / "x.db", workflows=[library])) as lab:
        run = lab.start(library["alone"])
        lab.settle()
        clock = lab.clock

    poor = wf.Library(root=tmp_path)
    poor.executor("a")(lambda call: calls.append("wrong"))
    with closing(Lab(tmp_path / "x.db", clock=clock, workflows=[poor])) as lab:
        lab.signal(run, "go")
        lab.settle()
        assert lab.engine.run(run.id).status is Status.PENDING
        assert [step.step for step in lab.engine.run(run.id).steps()] == ["a", "go"]

    with closing(Lab(tmp_path / "x.db", clock=clock, workflows=[library])) as lab:
        lab.finish(run)
    assert calls == ["a", "b"]
