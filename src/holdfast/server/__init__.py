"""``holdfast.server``: Holdfast over HTTP. ``app(engine)`` is an ASGI app; ``holdfast serve`` runs
it."""

from __future__ import annotations

from holdfast.server.app import app as app
from holdfast.server.auth import Caller as Caller
