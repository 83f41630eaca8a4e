# Generated from connect/namespaces.py by tools/generate_blocking.py: do not edit.
"""The namespaces of an engine: ``engine.gates``, ``engine.models``, ... Each is created when it is
first used (``core/lazy_parts.py``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.lazy_parts import part_class, part_names

if TYPE_CHECKING:
    from holdfast.connect.blocking.api_keys import ApiKeys
    from holdfast.connect.blocking.audit import Audit
    from holdfast.connect.blocking.budgets import Budgets
    from holdfast.connect.blocking.database import EngineDatabase
    from holdfast.connect.blocking.events import Events
    from holdfast.connect.blocking.flows import Flows
    from holdfast.connect.blocking.gates import Gates
    from holdfast.connect.blocking.graphs import Graphs
    from holdfast.connect.blocking.keys import Keys
    from holdfast.connect.blocking.lanes import Lanes
    from holdfast.connect.blocking.models import Models
    from holdfast.connect.blocking.operations import Operations
    from holdfast.connect.blocking.retention import Retention
    from holdfast.connect.blocking.schedules import Schedules
    from holdfast.connect.blocking.streams import Streams
    from holdfast.connect.blocking.tasks import Tasks
    from holdfast.connect.blocking.waits import Waits
    from holdfast.connect.blocking.webhooks import Webhooks
    from holdfast.connect.blocking.workers import Workers
    from holdfast.connect.calls import Calls


class Namespaces:
    """The namespaces, which share the calls of their engine."""

    api_keys: ApiKeys
    """The credentials of programs and people for the server."""
    audit: Audit
    """The log of the actions of operators."""
    budgets: Budgets
    """The amounts that runs may spend."""
    database: EngineDatabase
    """The database: its checks, and copies of runs."""
    events: Events
    """The events of all runs, and the named cursors over them."""
    flows: Flows
    """Managed flows: work that another program drives, with its state kept in this database."""
    gates: Gates
    """The decisions that runs ask of people."""
    graphs: Graphs
    """Graphs: runs that depend on each other."""
    keys: Keys
    """The keys that sign tokens, and the encryption of stored values."""
    lanes: Lanes
    """The limits of the named queues."""
    retention: Retention
    """The rules by which finished runs are deleted."""
    schedules: Schedules
    """The rules that start runs at given times."""
    streams: Streams
    """The output of runs."""
    tasks: Tasks
    """Leases, for programs that execute runs themselves."""
    waits: Waits
    """The waits of runs, and the signals that are delivered to them."""
    webhooks: Webhooks
    """The subscriptions that deliver events over HTTP."""
    models: Models
    """The deployed definitions, and the runs of models."""
    operations: Operations
    """The bulk operations that the bulk verbs of ``runs`` create."""
    workers: Workers
    """The workers, and the runs that none of them serves."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Create a namespace."""
            namespace = part_class(Namespaces, name, f"{__package__}.{name}")(self._calls)
            setattr(self, name, namespace)
            return namespace

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *part_names(Namespaces)]
