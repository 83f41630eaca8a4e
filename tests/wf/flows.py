"""A library whose fallback executor answers as a test says, and notes its calls."""

from collections import defaultdict

from holdfast import wf


class Flows:
    """A library with one text or several; ``answers`` lists the answers of each call target."""

    def __init__(self, *texts, root=".", **answers):
        self.library = wf.Library(root=root)
        for number, text in enumerate(texts):
            self.library.add(text, path=f"text{number}.wf")
        self.answers = {
            name.replace("_", "-") if "-" in name else name: list(values)
            for name, values in answers.items()
        }
        self.calls = []
        self.seen = defaultdict(list)
        self.library.executor()(self._answer)

    def _answer(self, call):
        self.calls.append(call.step)
        self.seen[call.step].append(call)
        answers = self.answers.get(call.step, [])
        answer = answers.pop(0) if answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def __getitem__(self, name):
        return self.library[name]

    def inputs(self, step, number=0):
        return self.seen[step][number].inputs


def steps_of(lab, run):
    """Return the steps of a run as ``key status`` with the iterations."""
    shown = []
    for step in lab.engine.run(run.id).steps():
        place = "".join(f"[{number}]" for number in step.iteration)
        shown.append(f"{step.step}{place} {step.status}")
    return shown
