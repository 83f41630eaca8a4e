"""Instances of models in an engine, with a virtual clock."""

from holdfast.errors import ModelRefused
from holdfast.testing.lab import Lab


class EngineWorld:
    """All runs of the processes of some files, in one engine. With *kills*, the worker is killed
    after each operation, and another one takes over."""

    def __init__(self, texts, handlers, path=None, kills=False):
        self.kills = kills
        self.lab = Lab(path, handlers=handlers)
        self.refused = False
        try:
            self.engine.models.deploy(*texts)
        except ModelRefused:
            self.refused = True

    @property
    def engine(self):
        return self.lab.engine

    @property
    def models(self):
        return self.lab.engine.models

    def close(self):
        self.lab.close()

    def settle(self):
        self.lab.settle()
        if self.kills:
            self.lab.crash()
            self.lab.settle()

    def start(self, process, variables):
        run = self.engine.start(process, variables)
        self.settle()
        return run.id

    def open_tasks(self):
        return self.models.tasks()

    def complete(self, task, variables):
        self.models.complete(task.id, variables)
        self.settle()

    def message(self, name, variables, key, element):
        delivery = self.models.message(name, variables, key=key, element=element)
        self.settle()
        return delivery.run_id

    def signal(self, name, variables):
        self.models.broadcast(name, variables)
        self.settle()

    def advance(self, by):
        self.lab.advance(by)
        self.settle()

    def trigger(self, id, element):
        self.models.trigger(id, element)
        self.settle()

    def set_variables(self, id, variables):
        self.models.set_variables(id, variables)
        self.settle()

    def cancel(self, id):
        self.engine.cancel(id)
        self.settle()

    def waiting(self):
        kinds = ("user", "external", "message", "signal", "timer", "condition", "trigger")
        return [
            token.element
            for run in self.engine.runs(status="waiting")
            for token in self.models.tokens(run.id)
            if token.waits_for in kinds
        ]

    def ended(self, id):
        return self.engine.run(id).status in ("completed", "failed", "cancelled")

    def variables(self, id):
        return self.models.variables(id)

    def completed(self, id):
        trace = self.models.trace(id)
        return {element: entry.completed for element, entry in trace.elements.items()}

    def troubles(self):
        return len(self.models.incidents())

    def check(self):
        """Return what the database itself finds wrong, and the runs that are stuck."""
        stuck = [run.id for run in self.engine.runs(status="stuck")]
        return [*self.engine.database.check(), *stuck]
