"""The namespaces of an engine: ``engine.gates``, ``engine.models``, ... Each is created when it is
first used (``core/lazy_parts.py``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.lazy_parts import part_class, part_names

if TYPE_CHECKING:
    from holdfast.connect.api_keys import AsyncApiKeys
    from holdfast.connect.async_calls import AsyncCalls
    from holdfast.connect.audit import AsyncAudit
    from holdfast.connect.budgets import AsyncBudgets
    from holdfast.connect.database import AsyncEngineDatabase
    from holdfast.connect.events import AsyncEvents
    from holdfast.connect.flows import AsyncFlows
    from holdfast.connect.gates import AsyncGates
    from holdfast.connect.graphs import AsyncGraphs
    from holdfast.connect.keys import AsyncKeys
    from holdfast.connect.lanes import AsyncLanes
    from holdfast.connect.models import AsyncModels
    from holdfast.connect.operations import AsyncOperations
    from holdfast.connect.retention import AsyncRetention
    from holdfast.connect.schedules import AsyncSchedules
    from holdfast.connect.streams import AsyncStreams
    from holdfast.connect.tasks import AsyncTasks
    from holdfast.connect.waits import AsyncWaits
    from holdfast.connect.webhooks import AsyncWebhooks
    from holdfast.connect.workers import AsyncWorkers


class AsyncNamespaces:
    """The namespaces, which share the calls of their engine."""

    api_keys: AsyncApiKeys
    """The credentials of programs and people for the server."""
    audit: AsyncAudit
    """The log of the actions of operators."""
    budgets: AsyncBudgets
    """The amounts that runs may spend."""
    database: AsyncEngineDatabase
    """The database: its checks, and copies of runs."""
    events: AsyncEvents
    """The events of all runs, and the named cursors over them."""
    flows: AsyncFlows
    """Managed flows: work that another program drives, with its state kept in this database."""
    gates: AsyncGates
    """The decisions that runs ask of people."""
    graphs: AsyncGraphs
    """Graphs: runs that depend on each other."""
    keys: AsyncKeys
    """The keys that sign tokens, and the encryption of stored values."""
    lanes: AsyncLanes
    """The limits of the named queues."""
    retention: AsyncRetention
    """The rules by which finished runs are deleted."""
    schedules: AsyncSchedules
    """The rules that start runs at given times."""
    streams: AsyncStreams
    """The output of runs."""
    tasks: AsyncTasks
    """Leases, for programs that execute runs themselves."""
    waits: AsyncWaits
    """The waits of runs, and the signals that are delivered to them."""
    webhooks: AsyncWebhooks
    """The subscriptions that deliver events over HTTP."""
    models: AsyncModels
    """The deployed definitions, and the runs of models."""
    operations: AsyncOperations
    """The bulk operations that the bulk verbs of ``runs`` create."""
    workers: AsyncWorkers
    """The workers, and the runs that none of them serves."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls = calls

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Create a namespace."""
            namespace = part_class(AsyncNamespaces, name, f"{__package__}.{name}")(self._calls)
            setattr(self, name, namespace)
            return namespace

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *part_names(AsyncNamespaces)]
