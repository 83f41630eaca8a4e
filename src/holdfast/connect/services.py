"""The services of an engine. Each is created, and its module loaded, when it is first used: most
programs use few of them (``core/lazy_parts.py`` does the same for namespaces)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.connect.definition_kinds import DefinitionKinds
from holdfast.service.runs import RunService

if TYPE_CHECKING:
    from holdfast.connect.migrations import MigrationPlanner
    from holdfast.connect.token_check import TokenCheck
    from holdfast.service.audit import AuditService
    from holdfast.service.definitions import DefinitionService
    from holdfast.service.flows import FlowService
    from holdfast.service.gates import GateService
    from holdfast.service.graphs import GraphService
    from holdfast.service.messages import MessageService
    from holdfast.service.operations import OperationService
    from holdfast.service.schedules import ScheduleService
    from holdfast.service.subscriptions import SubscriptionService
    from holdfast.service.tasks.service import TaskService


class Services:
    """The services that share a client, and with it the namespace that it is bound to."""

    def __init__(self, client: RunService, kinds: DefinitionKinds, crash_limit: int) -> None:
        self._client: RunService = client
        self._kinds: DefinitionKinds = kinds
        self._crash_limit: int = crash_limit

    @cached_property
    def models(self) -> DefinitionService:
        from holdfast.service.definitions import DefinitionService

        return DefinitionService(self._client)

    @cached_property
    def messages(self) -> MessageService:
        from holdfast.service.messages import MessageService

        return MessageService(self._client)

    @cached_property
    def audit(self) -> AuditService:
        from holdfast.service.audit import AuditService

        return AuditService(self._client)

    @cached_property
    def subscriptions(self) -> SubscriptionService:
        from holdfast.service.subscriptions import SubscriptionService

        return SubscriptionService(self._client)

    @cached_property
    def schedules(self) -> ScheduleService:
        from holdfast.service.schedules import ScheduleService

        return ScheduleService(self._client)

    @cached_property
    def gates(self) -> GateService:
        from holdfast.service.gates import GateService

        return GateService(self._client)

    @cached_property
    def graphs(self) -> GraphService:
        from holdfast.service.graphs import GraphService

        return GraphService(self._client)

    @cached_property
    def flows(self) -> FlowService:
        from holdfast.service.flows import FlowService

        return FlowService(self._client)

    @cached_property
    def token_check(self) -> TokenCheck:
        from holdfast.connect.token_check import TokenCheck

        return TokenCheck(self._client, self._kinds)

    @cached_property
    def migrations(self) -> MigrationPlanner:
        from holdfast.connect.migrations import MigrationPlanner

        return MigrationPlanner(self._client, self._kinds)

    @cached_property
    def operations(self) -> OperationService:
        from holdfast.service.operations import OperationService

        return OperationService(self._client, self.graphs, self.migrations.check)

    @cached_property
    def tasks(self) -> TaskService:
        from holdfast.service.tasks.service import TaskService

        return TaskService(self._client, crash_limit=self._crash_limit)
