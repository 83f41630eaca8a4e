"""The driver of the shared cases: it carries out the steps of a case on a world, and compares what
the case expects. A world is a set of instances: in memory, or in an engine."""

from collections import Counter

from holdfast.core.expressions.conditions import parse_condition
from holdfast.core.expressions.evaluate import evaluate
from holdfast.errors import BpmnError


class CaseDriver:
    """One case, carried out on one world."""

    def __init__(self, case, world):
        self.case = case
        self.world = world
        self.primary = None

    def run(self):
        for number, step in enumerate(self.case["steps"]):
            try:
                if "expect" in step:
                    self.compare(step["expect"])
                else:
                    self.carry_out(step)
            except AssertionError as error:
                raise AssertionError(f"step {number} {step}: {error}") from error

    def carry_out(self, step):
        action = getattr(self, f"do_{step['op']}")
        if step.get("raises"):
            before = self.world.troubles()
            action(step)
            assert self.world.troubles() > before, "neither an error nor an incident"
        else:
            action(step)

    def do_deploy(self, step):
        """The world has refused the files already."""
        assert self.world.refused == bool(step.get("rejected"))

    def do_start(self, step):
        id = self.world.start(step["process"], step.get("variables") or {})
        if step.get("primary", True):
            self.primary = id

    def do_start_by_message(self, step):
        self.primary = self.world.message(step["name"], step.get("variables") or {}, None, None)

    def do_complete(self, step):
        for _ in range(step.get("times", 1)):
            task = self.pick(step)
            self.world.complete(task, step.get("variables") or {})

    def pick(self, step):
        tasks = self.world.open_tasks()
        if step["task"] == "*":
            (task,) = tasks
            return task
        key = "name" if step.get("by") == "name" else "element"
        matching = [task for task in tasks if getattr(task, key) == step["task"]]
        assert matching, f"{step['task']} is not open: {self.opened()}"
        return matching[0]

    def do_complete_all(self, step):
        done = Counter()
        while True:
            tasks = [task for task in self.world.open_tasks() if task.element in step["totals"]]
            if not tasks:
                break
            self.world.complete(tasks[0], {})
            done[tasks[0].element] += 1
        assert done == step["totals"]

    def do_trigger(self, step):
        self.world.trigger(self.primary, step["element"])

    def do_message(self, step):
        self.world.message(
            step["name"],
            step.get("variables") or {},
            step.get("correlation_key"),
            step.get("deliver_to"),
        )

    def do_signal(self, step):
        self.world.signal(step["name"], step.get("variables") or {})

    def do_advance(self, step):
        self.world.advance(step["by"])

    def do_freeze_clock(self, step):
        """Time moves only by ``advance``."""

    def do_set_variables(self, step):
        self.world.set_variables(self.primary, step["variables"])

    def do_cancel_instance(self, step):
        self.world.cancel(self.primary)

    def opened(self):
        return sorted(task.element for task in self.world.open_tasks())

    def compare(self, expect):
        for name, value in expect.items():
            getattr(self, f"expect_{name}")(value)

    def expect_open(self, elements):
        assert self.opened() == sorted(elements)

    def expect_open_names(self, names):
        assert sorted(task.name for task in self.world.open_tasks()) == sorted(names)

    def expect_open_count(self, count):
        assert len(self.world.open_tasks()) == count

    def expect_waiting(self, elements):
        assert sorted(self.world.waiting()) == sorted(elements)

    def expect_ended(self, ended):
        assert self.world.ended(self.primary) == ended

    def expect_variables(self, variables):
        actual = self.world.variables(self.primary)
        assert {name: actual.get(name) for name in variables} == variables

    def expect_completed(self, counts):
        actual = self.world.completed(self.primary)
        assert {element: actual.get(element, 0) for element in counts} == counts


def handlers_of(case):
    """Return the functions that do the automatic work of a case, by element id."""
    return {element: _handler(rule) for element, rule in case.get("handlers", {}).items()}


def _handler(rule):
    def work(**variables):
        if "throw_error" in rule:
            raise BpmnError(rule["throw_error"])
        if "increment" in rule:
            name = rule["increment"]
            return {name: (variables.get(name) or 0) + 1}
        return {
            name: evaluate(parse_condition(text), variables)
            for name, text in rule.get("assign", {}).items()
        }

    return work


def idle(**variables):
    """An automatic task without a handler does nothing and completes."""
    return {}


def rewritten(case, text):
    """Return a model with the expressions that no JUEL of ours covers in the portable form."""
    for original, portable in case.get("expressions", {}).items():
        if "environment.services" in original:
            text = text.replace(original, "${" + portable.replace('"', "'") + "}")
    return text
