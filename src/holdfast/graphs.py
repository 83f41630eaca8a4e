"""Graphs of runs that depend on each other.

``extend`` is for ``async def`` workflows; ``def`` workflows use that of ``holdfast.sync.graphs``.
"""

from holdfast.authoring.python.api_async import extend as extend
from holdfast.core.graphs.builder import Graph as Graph
