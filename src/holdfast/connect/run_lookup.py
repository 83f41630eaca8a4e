"""Find the run that an operator means: by its id, by a prefix of it, or as the last one."""

from __future__ import annotations

from holdfast.core.runs import RunRecord
from holdfast.core.text import nearest
from holdfast.errors import RunNotFound
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.runs.queries import RunQueries

SHORTEST = 6
"""The minimum length of a prefix that may stand for an id."""

NEWEST = 200
"""Runs whose ids are compared with an id that does not exist."""


def find_run(runs: RunQueries, name: str, namespace: str | None) -> RunRecord:
    """Return the run with the id *name*, with the id prefix *name*, or the newest for "last"; with
    *namespace*, only a run of it. Raises RunNotFound."""
    if name == "last":
        return _newest(runs, namespace)
    run = runs.get(name) or _by_prefix(runs, name, namespace)
    if namespace is not None and run.namespace != namespace:
        raise RunNotFound(run=name)
    return run


def _newest(runs: RunQueries, namespace: str | None) -> RunRecord:
    """Return the newest run that has no parent."""
    newest = runs.find(RunFilter(roots=True, limit=1, namespace=namespace))
    if not newest:
        why = "the database has no runs yet: start one with `holdfast run`"
        raise RunNotFound(run="last", why=why)
    return newest[0]


def _by_prefix(runs: RunQueries, name: str, namespace: str | None) -> RunRecord:
    """Return the only run whose id begins with *name*. Raises RunNotFound."""
    if len(name) < SHORTEST:
        raise _not_found(runs, name, namespace)
    matches = runs.find(RunFilter(id_prefix=name, limit=2, namespace=namespace))
    if not matches:
        raise _not_found(runs, name, namespace)
    if len(matches) > 1:
        why = (
            f"several run ids begin with {name}, such as {matches[0].id} and {matches[1].id}:"
            " give more characters"
        )
        raise RunNotFound(run=name, why=why)
    return matches[0]


def _not_found(runs: RunQueries, name: str, namespace: str | None) -> RunNotFound:
    """Return the error for an unknown run, with the id that it resembles among the newest."""
    ids = [run.id for run in runs.find(RunFilter(limit=NEWEST, namespace=namespace))]
    if name and any(run_id.startswith(name) for run_id in ids):
        return RunNotFound(run=name, why=f"give at least the first {SHORTEST} characters")
    similar = nearest(name, ids)
    if similar is None:
        return RunNotFound(run=name)
    return RunNotFound(run=name, why=f"did you mean {similar}?")
