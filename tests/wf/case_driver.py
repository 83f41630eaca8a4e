"""The driver of the program cases: executors that answer as listed, stub scripts, decisions."""

import json
import sys
from collections import defaultdict

from holdfast import wf
from holdfast.core.status import FINAL
from tests.wf.cases import FOLDER

STUB = """#!{python}
import json, os, sys
place = os.path.join({folder!r}, {name!r})
starts = [json.loads(line) for line in open(place + ".starts")] if os.path.exists(
    place + ".starts") else []
with open(place + ".starts", "a") as file:
    file.write(json.dumps({{"args": sys.argv[1:], "env": dict(os.environ)}}) + "\\n")
answers = json.load(open(place + ".answers"))
answer = answers[len(starts)] if len(starts) < len(answers) else {{}}
if "stdout" in answer:
    print(answer["stdout"])
elif {{"markers", "context", "extras"}} & answer.keys():
    block = {{"markers": answer.get("markers", []), "context": answer.get("context", "")}}
    block.update(answer.get("extras", {{}}))
    print("<<<FLOW_OUTPUT>>>" + json.dumps(block) + "<<<END_FLOW_OUTPUT>>>")
print(answer.get("stderr", ""), file=sys.stderr, end="")
sys.exit(answer.get("code", 0))
"""

ORDERED = ("tickets", "worktrees")


class Program:
    """One case: its library, and everything that its executors were asked."""

    def __init__(self, case, folder):
        self.case = case
        self.folder = folder
        self.calls = []
        self.phase = 0
        self._counts = defaultdict(int)
        self._gates = iter(case.get("gates", []))
        self.asked = []
        self.library = wf.Library(root=folder)
        for path in case["files"]:
            self.library.add((FOLDER / path).read_text("utf-8"), path=path.rpartition("/")[2])
        for name, data in case.get("schemas", {}).items():
            self.library.schema(name, data)
        self._register()
        self._write_scripts()

    def _register(self):
        @self.library.executor()
        def answer(call):
            self.calls.append((self.phase, call, dict(call.inputs)))
            return self._answer(call)

        for name in ("tickets", "worktrees", "things", "repos", "workflow_runs"):
            items = [wf.Item(**item) for item in self.case.get("items", {}).get(name, [])]
            register = self.library.provider(
                name, ordered=name in ORDERED, needs_filter=name == "workflow_runs"
            )
            register(lambda ask, items=items: items)

    def _answer(self, call):
        answers = self.case.get("answers", {}).get(call.name, [])
        key = call.name
        if isinstance(answers, dict):
            value = call.inputs.get(answers["by"], "")
            key = f"{call.name} {value}"
            answers = answers.get(value, [])
        number = self._counts[key]
        self._counts[key] += 1
        answer = answers[number] if number < len(answers) else {}
        if "fail" in answer:
            raise RuntimeError(answer["fail"])
        fields = {
            name: answer[name]
            for name in ("markers", "context", "output", "text")
            if name in answer
        }
        return wf.Output(**fields)

    def _write_scripts(self):
        names = {*self.case.get("script_paths", ()), *self.case.get("scripts", ())}
        for name in names:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            stub = STUB.format(python=sys.executable, folder=str(self.folder), name=name)
            path.write_text(stub)
            path.chmod(0o755)
            answers = self.case.get("scripts", {}).get(name, [])
            (self.folder / f"{name}.answers").write_text(json.dumps(answers))

    def starts(self, script):
        path = self.folder / f"{script}.starts"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines()]

    # Running

    def start(self, lab):
        return lab.start(
            self.library[self.case["workflow"]],
            self.case.get("inputs", {}),
            dry_run=self.case.get("dry_run", False),
            keep_going=self.case.get("keep_going", False),
            variables=self.case.get("variables", {}),
            cwd=str(self.folder),
        )

    def finish(self, lab, run_id):
        """Let the run come to its end; return its status."""
        for _ in range(200):
            lab.settle()
            status = lab.engine.run(run_id).status
            if status in FINAL:
                return status.value
            if not self._decide(lab) and not lab.hop():
                raise AssertionError(lab.explain(run_id))
        raise AssertionError(f"{run_id} does not end")

    def _decide(self, lab):
        gates = lab.engine.gates.list()
        for gate in gates:
            kind = gate.kind
            options = [option.value for option in gate.options]
            self.asked.append({"gate": kind, "prompt": gate.prompt, "options": options})
            decision = next(self._gates, {"approve": {"by": "ann"}})
            if "timeout" in decision:
                lab.hop()
                lab.settle()
            else:
                ((verb, facts),) = decision.items()
                options = {
                    name: facts[name]
                    for name in ("feedback", "selections")
                    if name in facts and (verb == "approve" or name == "feedback")
                }
                getattr(lab.engine.gates, verb)(gate.id, by=facts.get("by", "ann"), **options)
        return bool(gates)

    def operate(self, lab, run_id, operation):
        """Do one operation of ``then``; return the id of the run to look at."""
        self.phase += 1
        if operation["op"] == "replay":
            lab.engine.replay(run_id, from_step=operation.get("from"))
            return run_id
        return lab.engine.fork(run_id).id

    # Comparing

    def check(self, lab, run_id, status):
        """Compare a phase with what is expected of it."""
        expected = self.case["expect"]["phases"][self.phase]
        assert status == expected["status"]
        steps = [dict(step) for step in lab.engine.run(run_id).steps()]
        shown = [
            {name: step[name] for name in ("step", "kind", "iteration", "status")} for step in steps
        ]
        wanted = [
            {name: step[name] for name in ("step", "kind", "iteration", "status")}
            for step in expected["steps"]
        ]
        assert shown == wanted
        for step, fields in zip(steps, expected["steps"], strict=True):
            for name, value in fields.items():
                if name == "markers":
                    assert sorted(step[name]) == sorted(value), (step["step"], name)
                else:
                    assert step[name] == value, (step["step"], name)
        calls = [call.name for phase, call, _ in self.calls if phase == self.phase]
        if "calls" in expected:
            assert calls == expected["calls"]
        if "calls_in_any_order" in expected:
            assert sorted(calls) == sorted(expected["calls_in_any_order"])

    def check_all(self, lab, run_id):
        """Compare what was seen in all phases."""
        expect = self.case["expect"]
        for seen in expect.get("sees", ()):
            self._check_seen(seen)
        for asked, wanted in zip(self.asked, expect.get("asked", self.asked), strict=True):
            assert {name: asked[name] for name in wanted} == wanted
        for script, args in expect.get("args", {}).items():
            assert [start["args"] for start in self.starts(script)] == args
        for script, envs in expect.get("env", {}).items():
            for start, env in zip(self.starts(script), envs, strict=True):
                assert {name: start["env"].get(name) for name in env} == env
        if "order" in expect:
            items = [step["items"] for step in lab.engine.run(run_id).steps() if step["items"]]
            started = [item["item"] for item in items[0] if item["run"]]
            assert started == expect["order"]
        if "error_contains" in expect:
            assert expect["error_contains"] in lab.engine.run(run_id).record.error.message

    def _check_seen(self, seen):
        calls = [
            (call, inputs)
            for phase, call, inputs in self.calls
            if call.name == seen["call"] and seen.get("phase", phase) == phase
        ]
        call, inputs = calls[seen.get("nth", 1) - 1]
        for name, value in seen.get("inputs", {}).items():
            assert inputs.get(name) == value, name
        for name, part in seen.get("contains", {}).items():
            assert part in inputs[name]
        for name in seen.get("absent", ()):
            assert name not in inputs
        for name in ("retries_left", "last_error", "schema", "snippets", "identity", "dry_run"):
            if name in seen:
                assert getattr(call, name) == seen[name], name
        if "last_error_contains" in seen:
            assert seen["last_error_contains"] in (call.last_error or "")
