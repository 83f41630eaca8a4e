"""Instances of models in memory: the token machine alone, without an engine."""

from typing import NamedTuple

from holdfast.authoring.bpmn.check import check_model
from holdfast.authoring.bpmn.compile import compile_process
from holdfast.authoring.bpmn.expressions import value_of
from holdfast.authoring.bpmn.handlers import THROWN, HandlerBinder, thrown
from holdfast.authoring.bpmn.reading import read_model
from holdfast.authoring.bpmn.resting import TokenRows, resting_token
from holdfast.authoring.bpmn.timers import UTC, add, read_period
from holdfast.authoring.bpmn.token_machine.instructions import instruct
from holdfast.authoring.bpmn.token_machine.machine import TokenMachine
from holdfast.authoring.bpmn.token_machine.trace import TraceLog
from holdfast.authoring.bpmn.token_machine.variables import seen_by
from holdfast.errors import BpmnError


class OpenTask(NamedTuple):
    """A user task or job that is open."""

    run: str
    wait: str
    element: str
    name: str | None


class Instance:
    """A machine, its caller, and whether it was cancelled."""

    def __init__(self, machine, caller):
        self.machine = machine
        self.caller = caller
        self.cancelled = False
        self.reported = False
        self.shown = TokenRows(machine.state.graph)
        self.rows = {}

    def check_rows(self):
        """Check that the changed rows add up to the tokens that there are."""
        state = self.machine.state
        for change in self.shown.changes(state):
            self.rows.update((token.id, token) for token in change.tokens)
            for token_id in change.removed:
                del self.rows[token_id]
        tokens = [resting_token(state, token) for token in state.tokens.values()]
        assert self.rows == {token.id: token for token in tokens}


class PureWorld:
    """All instances of the processes of some files."""

    def __init__(self, texts, handlers, binder=HandlerBinder):
        self.now = 1_000_000_000_000_000
        self.graphs = {}
        self.binders = {}
        self.instances = {}
        self.refused = False
        self.saga = None
        self.handlers = handlers
        for text in texts:
            model = read_model(text)
            model.problems = check_model(model, lambda name: name in handlers)
            if any(problem.severity == "error" for problem in model.problems):
                self.refused = True
                continue
            for process in model.processes:
                self.graphs[process.id] = compile_process(model, process.id)
                self.binders[process.id] = binder(process.id, handlers)

    def start(self, process, variables, start=None, caller=None):
        id = f"{process}-{len(self.instances) + 1}"
        machine = self.machine(process)
        machine.state.trace = TraceLog()
        machine.state.has_caller = caller is not None
        self.instances[id] = Instance(machine, caller)
        machine.start(variables, start)
        self.settle()
        return id

    def machine(self, process):
        graph, binder = self.graphs[process], self.binders[process]
        return TokenMachine(graph, binder, now=self.now, saga=self.saga)

    def instruct(self, id, verb, facts):
        instruct(self.instances[id].machine, verb, facts)
        self.settle()

    def settle(self):
        """Answer all requests that need nothing from outside."""
        while any(self.settle_one(id, instance) for id, instance in list(self.instances.items())):
            pass

    def settle_one(self, id, instance):
        state = instance.machine.state
        if state.ending is None:
            instance.check_rows()
        requests = list(state.requests.values())
        state.requests.clear()
        state.dropped.clear()
        for wait in requests:
            getattr(self, f"on_{wait.kind}", lambda *_: None)(id, instance, wait)
        if state.ending is not None and not instance.reported:
            instance.reported = True
            self.report(instance, state.ending)
            return True
        return bool(requests)

    def report(self, instance, ending):
        if instance.caller is None:
            return
        run, wait_id = instance.caller
        machine = self.instances[run].machine
        wait = machine.state.waits.get(wait_id)
        if wait is None:
            return
        if ending.status == "failed":
            machine.answer(wait_id, "error", ending.error)
        else:
            work = machine.state.graph.nodes[wait.node].element.work
            values = dict(ending.variables) if work.passes_all_out else {}
            for line in work.outputs:
                values[line.target] = value_of(line.source, ending.variables)
            machine.answer(wait_id, "done", values)

    def on_work(self, id, instance, wait):
        node = instance.machine.state.graph.nodes[wait.node]
        bound = instance.machine.state.bind(node).handler
        if wait.id not in instance.machine.state.waits:
            return
        try:
            value = bound.function(**wait.data["args"])
        except BpmnError as error:
            instance.machine.answer(wait.id, "error", thrown(error)[THROWN])
        except ValueError as error:
            instance.machine.answer(
                wait.id, "failed", {"type": "ValueError", "message": str(error)}
            )
        else:
            instance.machine.answer(wait.id, "done", value)

    def on_call(self, id, instance, wait):
        self.start(wait.data["target"], wait.data["variables"], caller=(id, wait.id))

    def on_publish(self, id, instance, wait):
        instance.machine.answer(wait.id, "done")
        self.message(wait.data["name"], wait.data["variables"], wait.data.get("key"), None)

    def on_broadcast(self, id, instance, wait):
        instance.machine.answer(wait.id, "done")
        self.signal(wait.data["name"], wait.data["variables"])

    def live(self):
        return [
            (id, instance.machine.state)
            for id, instance in self.instances.items()
            if instance.machine.state.ending is None and not instance.cancelled
        ]

    def open_tasks(self):
        return [
            OpenTask(id, wait.id, wait.node, state.graph.nodes[wait.node].name)
            for id, state in self.live()
            for wait in state.waits.values()
            if wait.kind in ("user", "external")
        ]

    def complete(self, task, variables):
        self.tick(self.instances[task.run])
        self.instances[task.run].machine.answer(task.wait, "done", variables)
        self.settle()

    def tick(self, instance):
        instance.machine.state.now = self.now

    def message(self, name, variables, key, element):
        for id, state in self.live():
            for wait in list(state.waits.values()):
                if (
                    wait.kind == "message"
                    and wait.data["name"] == name
                    and wait.data.get("key") in (None, key)
                    and element in (None, wait.node)
                ):
                    self.tick(self.instances[id])
                    self.instances[id].machine.answer(wait.id, "fired", variables)
                    self.settle()
                    return id
        return self.start_by("message", name, variables)

    def start_by(self, kind, name, variables):
        for process, graph in self.graphs.items():
            for node in graph.starts.values():
                names = [(event.event, event.name) for event in node.events]
                if (kind, name) in [*names, ("message", node.element.message)]:
                    return self.start(process, variables, node.id)
        return None

    def signal(self, name, variables):
        for id, state in self.live():
            for wait in list(state.waits.values()):
                if wait.kind == "signal" and wait.data["name"] == name:
                    self.tick(self.instances[id])
                    self.instances[id].machine.answer(wait.id, "fired", variables)
        self.start_by("signal", name, variables)
        self.settle()

    def advance(self, by):
        end = add(self.now, read_period(by), UTC)
        while True:
            due = [
                (wait.data["at"], id, wait.id)
                for id, state in self.live()
                for wait in state.waits.values()
                if wait.kind == "timer" and wait.data["at"] <= end
            ]
            if not due:
                break
            at, id, wait_id = min(due)
            self.now = max(self.now, at)
            self.tick(self.instances[id])
            self.instances[id].machine.answer(wait_id, "fired")
            self.settle()
        self.now = end

    def trigger(self, id, element):
        instruct(self.instances[id].machine, "trigger", {"element": element})
        self.settle()

    def set_variables(self, id, variables):
        instruct(self.instances[id].machine, "set_variables", {"variables": variables})
        self.settle()

    def cancel(self, id):
        self.instances[id].cancelled = True

    def waiting(self):
        return [
            wait.node
            for _, state in self.live()
            for wait in state.waits.values()
            if wait.role == "own" and wait.kind not in ("incident", "work", "call", "publish")
        ]

    def ended(self, id):
        instance = self.instances[id]
        return instance.cancelled or instance.machine.state.ending is not None

    def variables(self, id):
        state = self.instances[id].machine.state
        return state.ending.variables if state.ending else state.root.variables

    def completed(self, id):
        trace = self.instances[id].machine.state.trace
        return {element: entry.completed for element, entry in trace.elements.items()}

    def troubles(self):
        return sum(
            wait.kind == "incident" for _, state in self.live() for wait in state.waits.values()
        )

    def seen(self, id, element):
        state = self.instances[id].machine.state
        token = next(token for token in state.tokens.values() if token.node == element)
        return seen_by(state, token)
