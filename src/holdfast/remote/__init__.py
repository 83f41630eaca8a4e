"""``holdfast.remote``: a client of the server, with the namespaces of ``Engine``. It speaks HTTP
with the standard library alone."""

from __future__ import annotations

from holdfast.remote.client import Client as Client
