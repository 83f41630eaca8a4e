"""The names of ``holdfast`` for ``def`` workflows: the same functions, called without await.

Two namespaces have forms of their own, ``sync.graphs`` and ``sync.waits``. The other namespaces
serve ``def`` and ``async def`` code alike, and are the ones of ``holdfast``.
"""

from holdfast import budgets as budgets
from holdfast import codecs as codecs
from holdfast import deterministic as deterministic
from holdfast import errors as errors
from holdfast import gates as gates
from holdfast import logs as logs
from holdfast import schedules as schedules
from holdfast import sql as sql
from holdfast import streams as streams
from holdfast import versions as versions
from holdfast.authoring.python.api_shared import *
from holdfast.authoring.python.api_sync import *
from holdfast.connect.blocking.engine import Engine as Engine
from holdfast.connect.blocking.run import Run as Run
from holdfast.sync import graphs as graphs
from holdfast.sync import waits as waits
