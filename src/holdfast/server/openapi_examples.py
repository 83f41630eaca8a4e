"""Examples of request bodies, by operation, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

EXAMPLES: dict[str, dict[str, Any]] = {
    "engine.start": {
        "workflow": "checkout",
        "args": [{"items": [1, 2]}],
        "id": "order-7",
        "tags": {"customer": "7"},
        "delay": "10m",
    },
    "engine.start_many": {"workflow": "render", "items": [{"page": 1}, {"page": 2}]},
    "run.signal": {"name": "paid", "payload": {"amount": 10}},
    "run.cancel": {"reason": "the customer withdrew the order"},
    "runs.cancel": {
        "filters": {"workflow": "checkout", "status": "waiting", "until": "30d"},
        "reason": "too old",
        "dry_run": True,
    },
    "gates.decide": {"choice": "yes", "feedback": "looks good"},
    "schedules.set": {"workflow": "report", "cron": "0 9 * * mon-fri", "zone": "Europe/Berlin"},
    "lanes.set": {"concurrency": 10, "rate": "100/m"},
    "budgets.set": {"limits": {"eur": 2.5}, "reset": "30d"},
    "webhooks.set": {"url": "https://example.org/hook", "kind": ["run_completed", "run_failed"]},
    "retention.set": {"target": "runs", "status": ["completed"], "older_than": "90d"},
    "api_keys.add": {"name": "ci", "roles": ["starter", "viewer"], "expires": "90d"},
    "flows.create": {"controller": "agent", "goal": "answer the letter", "owner": "ann"},
    "models.message": {"name": "payment", "key": "order-7", "ttl": "1d"},
    "server.check": {"kind": "wf", "text": "workflow hello { call render }"},
    "server.open_remote_worker": {"worker": "node-1", "workflows": ["render"], "ttl": "30s"},
    "server.claim": {"limit": 16, "wait": "20s"},
    "server.complete": {"completions": [{"proof": "the proof of the claim", "result": {"ok": 1}}]},
    "lease.fail": {"kind": "transient", "message": "the printer is busy", "retry_after": "1m"},
    "waits.deliver": {"token": "the token of the wait", "payload": {"paid": True}},
}
"""Bodies that the operations accept; the tests send all bodies that need nothing to exist."""
