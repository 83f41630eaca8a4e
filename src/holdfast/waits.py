"""Waits with tokens, and conditions over the signals of a run.

``create_wait`` and ``wait_for`` are for ``async def`` workflows; ``def`` workflows use those of
``holdfast.sync.waits``.
"""

from holdfast.authoring.python.api_async import create_wait as create_wait
from holdfast.authoring.python.api_async import wait_for as wait_for
from holdfast.authoring.python.waits import *
