"""MCP requests of the revision without sessions, each standing for itself."""

from __future__ import annotations

import itertools

VERSION = "2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"
_IDS = itertools.count(1)


def message(method, params=None, *, tasks=True, elicitation=False, more_meta=None):
    """Return a request as JSON-RPC, with the capabilities of its client."""
    capabilities = {}
    if tasks:
        capabilities["extensions"] = {TASKS: {}}
    if elicitation:
        capabilities["elicitation"] = {}
    meta = {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }
    return {
        "jsonrpc": "2.0",
        "id": next(_IDS),
        "method": method,
        "params": {**(params or {}), "_meta": {**meta, **(more_meta or {})}},
    }


def headers(sent):
    """Return the headers that repeat the method and the name of a request."""
    params = sent["params"]
    name = params.get("name") or params.get("uri") or params.get("taskId")
    repeated = {
        "mcp-protocol-version": VERSION,
        "mcp-method": sent["method"],
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
    }
    if name is not None:
        repeated["mcp-name"] = name
    return repeated


class McpCalls:
    """Calls ``/mcp`` of an app with an API key."""

    def __init__(self, client):
        self._client = client

    def __call__(self, method, params=None, *, more_headers=None, **capabilities):
        """Send a request and return the whole answer."""
        sent = message(method, params, **capabilities)
        all_headers = {**headers(sent), **(more_headers or {})}
        answer = self._client("POST", "/mcp", sent, headers=all_headers, raw=True)
        return answer.json()

    def result(self, method, params=None, **capabilities):
        """Send a request that must succeed, and return its result."""
        answer = self(method, params, **capabilities)
        assert "result" in answer, answer
        return answer["result"]

    def tool(self, tool, arguments=None, **capabilities):
        """Call a tool and return the result."""
        params = {"name": tool, "arguments": arguments or {}}
        return self.result("tools/call", params, **capabilities)

    def task(self, task_id):
        return self.result("tasks/get", {"taskId": task_id})
