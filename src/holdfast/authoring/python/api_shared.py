"""The public names that serve ``async def`` and ``def`` workflows alike.

``holdfast`` and ``holdfast.sync`` both re-export all names of this module.
"""

from holdfast.authoring.python.deterministic import compensate as compensate
from holdfast.authoring.python.deterministic import now as now
from holdfast.authoring.python.schedule import schedule as schedule
from holdfast.authoring.python.step import info as info
from holdfast.authoring.python.step import step as step
from holdfast.authoring.python.task import task as task
from holdfast.authoring.python.workflow import workflow as workflow
from holdfast.core.graphs.builder import Graph as Graph
from holdfast.errors import Fail as Fail
from holdfast.errors import HoldfastError as HoldfastError
from holdfast.errors import Retry as Retry
