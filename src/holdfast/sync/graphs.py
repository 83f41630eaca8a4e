"""The names of ``holdfast.graphs`` for ``def`` workflows."""

from holdfast.authoring.python.api_sync import extend as extend
from holdfast.core.graphs.builder import Graph as Graph
