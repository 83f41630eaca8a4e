"""Operations that are calls of a method, and nothing else.

A new method of a namespace needs one line here: its name, its address and its right. The test of
the operation table names every method that has none.
"""

from __future__ import annotations

from holdfast.core.api_keys import Right
from holdfast.server.operation import operation

VIEW = Right.VIEW
START = Right.START
OPERATE = Right.OPERATE
ADMIN = Right.ADMIN

RUN = (
    operation("run.record", "GET /runs/{id}", VIEW),
    operation("run.status", "GET /runs/{id}/status", VIEW),
    operation("run.steps", "GET /runs/{id}/steps", VIEW),
    operation("run.attempts", "GET /runs/{id}/attempts", VIEW),
    operation("run.why", "GET /runs/{id}/why", VIEW),
    operation("run.signal", "POST /runs/{id}/signals", START, field="new", idempotent_by="key"),
    operation("run.cancel", "POST /runs/{id}/cancel", OPERATE),
    operation("run.resume", "POST /runs/{id}/resume", OPERATE),
    operation("run.replay", "POST /runs/{id}/replay", OPERATE),
    operation("run.release", "POST /runs/{id}/release", OPERATE, field="step"),
    operation("run.set_tags", "PATCH /runs/{id}/tags", OPERATE, field="tags"),
    operation("tasks.revoke", "POST /runs/{run_id}/revoke", OPERATE, field="revoked"),
    operation("tasks.prioritise", "POST /runs/{run_id}/prioritise", OPERATE, field="priority"),
    operation("tasks.override", "POST /runs/{run_id}/override", OPERATE),
    operation("budgets.usage", "GET /runs/{run_id}/usage", VIEW),
    operation("budgets.refund", "POST /runs/{run_id}/refund", OPERATE),
    operation("streams.list", "GET /runs/{run_id}/streams", VIEW),
    operation("streams.summary", "GET /runs/{run_id}/summary", VIEW, needs_values=True),
    operation("streams.progress", "GET /runs/{run_id}/progress", VIEW),
)

GATES = (
    operation("gates.entries", "GET /gates/{gate}/entries", VIEW),
    operation("gates.reassign", "POST /gates/{gate}/reassign", OPERATE),
    operation("gates.withdraw", "POST /gates/{gate}/withdraw", OPERATE),
    operation("gates.update", "PUT /gates/{gate}/data", OPERATE),
    operation("gates.answer", "POST /answers", None, public=True),
    operation("gates.link", "POST /gates/{gate}/links", ADMIN, field="token"),
)

WAITS = (
    operation("waits.list", "GET /waits", VIEW),
    operation("waits.get", "GET /waits/{wait_id}", VIEW),
    operation(
        "waits.deliver", "POST /waits/{wait_id}/signals", None, public=True, idempotent_by="key"
    ),
    operation("waits.token", "POST /waits/{wait_id}/token", ADMIN, field="token"),
)

SCHEDULES = (
    operation("schedules.list", "GET /schedules", VIEW, cursor="name"),
    operation("schedules.get", "GET /schedules/{name}", VIEW),
    operation("schedules.set", "PUT /schedules/{name}", OPERATE),
    operation("schedules.remove", "DELETE /schedules/{name}", OPERATE, status=204),
    operation("schedules.pause", "POST /schedules/{name}/pause", OPERATE),
    operation("schedules.resume", "POST /schedules/{name}/resume", OPERATE),
    operation("schedules.trigger", "POST /schedules/{name}/trigger", OPERATE, derived_id="id"),
    operation("schedules.backfill", "POST /schedules/{name}/backfill", OPERATE),
    operation("schedules.next", "GET /schedules/{name}/next", VIEW),
    operation("schedules.why", "GET /schedules/{name}/why", VIEW),
)

LANES = (
    operation("lanes.list", "GET /lanes", VIEW, cursor="name"),
    operation("lanes.get", "GET /lanes/{name}", VIEW),
    operation("lanes.set", "PATCH /lanes/{name}", OPERATE, status=204),
    operation("lanes.remove", "DELETE /lanes/{name}", OPERATE, status=204),
    operation("lanes.pause", "POST /lanes/{name}/pause", OPERATE, status=204),
    operation("lanes.resume", "POST /lanes/{name}/resume", OPERATE, status=204),
    operation("lanes.drain", "POST /lanes/{name}/drain", OPERATE, status=204),
)

WORKERS = (
    operation("workers.list", "GET /workers", VIEW),
    operation("workers.unserved", "GET /workers/unserved", VIEW),
    operation("workers.remove", "POST /workers/{worker}/remove", OPERATE),
)

BUDGETS = (
    operation("budgets.list", "GET /budgets", VIEW, cursor="name"),
    operation("budgets.get", "GET /budgets/{name}", VIEW),
    operation("budgets.set", "PUT /budgets/{name}", OPERATE, status=204),
    operation("budgets.remove", "DELETE /budgets/{name}", OPERATE, status=204),
    operation(
        "budgets.raise_limits",
        "POST /budgets/{name}/raise-limits",
        OPERATE,
        field="new",
        idempotent_by="key",
    ),
    operation("budgets.reset", "POST /budgets/{name}/reset", OPERATE, status=204),
    operation("budgets.spend", "POST /budgets/{name}/spend", OPERATE, idempotent_by="key"),
)

BULK_OPERATIONS = (
    operation("operations.list", "GET /operations", VIEW),
    operation("operations.get", "GET /operations/{operation_id}", VIEW),
    operation("operations.stop", "POST /operations/{operation_id}/stop", OPERATE),
    operation("operations.wait", "POST /operations/{operation_id}/wait", OPERATE),
)

FLOWS = (
    operation("flows.list", "GET /flows", VIEW),
    operation("flows.get", "GET /flows/{flow_id}", VIEW),
    operation("flows.why", "GET /flows/{flow_id}/why", VIEW),
    operation("flows.steps", "GET /flows/{flow_id}/steps", VIEW),
    operation("flows.step", "GET /flows/{flow_id}/steps/{run_id}", VIEW, field="step"),
    operation("flows.events", "GET /flows/{flow_id}/events", VIEW),
    operation("flows.start", "POST /flows/{flow_id}/start", START),
    operation("flows.advance", "POST /flows/{flow_id}/advance", START),
    operation("flows.wait", "POST /flows/{flow_id}/wait", START),
    operation("flows.resume", "POST /flows/{flow_id}/resume", START),
    operation("flows.finish", "POST /flows/{flow_id}/finish", START),
    operation("flows.fail", "POST /flows/{flow_id}/fail", START),
    operation("flows.cancel", "POST /flows/{flow_id}/cancel", OPERATE),
    operation("flows.request_cancel", "POST /flows/{flow_id}/request-cancel", OPERATE),
    operation("flows.observe", "POST /flows/{flow_id}/observe", START),
    operation("flows.set", "PATCH /flows/{flow_id}", START),
    operation("flows.deliver", "POST /flows/{flow_id}/deliver", START, field="flow"),
    operation("flows.deliver_all", "POST /flows/deliver", START),
    operation("flows.wake", "POST /flows/wake", START),
    operation("flows.prune", "POST /flows/prune", ADMIN, field="flows"),
    operation("flows.append_event", "POST /flows/{flow_id}/events", START),
)

SUBSCRIPTIONS = (
    operation("events.subscriptions", "GET /subscriptions", VIEW),
    operation("events.unsubscribe", "DELETE /subscriptions/{name}", ADMIN, status=204),
    operation("webhooks.list", "GET /webhooks", VIEW),
    operation("webhooks.get", "GET /webhooks/{name}", VIEW),
    operation("webhooks.set", "PUT /webhooks/{name}", ADMIN, field="secret"),
    operation("webhooks.remove", "DELETE /webhooks/{name}", ADMIN, status=204),
    operation("webhooks.dead_letters", "GET /webhooks/{name}/dead-letters", VIEW),
    operation("webhooks.redeliver", "POST /webhooks/{name}/redeliver", ADMIN, field="letters"),
)

STORAGE = (
    operation("retention.list", "GET /retention", VIEW),
    operation("retention.get", "GET /retention/{name}", VIEW),
    operation("retention.set", "PUT /retention/{name}", ADMIN, status=204),
    operation("retention.remove", "DELETE /retention/{name}", ADMIN, status=204),
    operation("retention.preview", "POST /storage/preview", ADMIN),
    operation("retention.apply", "POST /storage/apply", ADMIN, field="runs"),
    operation("retention.prune", "POST /storage/prune", ADMIN, field="runs"),
    operation("database.info", "GET /storage", VIEW),
    operation("database.sizes", "GET /storage/tables", VIEW),
    operation("database.check", "POST /storage/check", ADMIN),
    operation("database.check_payloads", "POST /storage/check-payloads", ADMIN),
    operation("keys.list", "GET /keys", ADMIN),
    operation("keys.rotate", "POST /keys/rotate", ADMIN),
    operation("keys.rekey", "POST /keys/rekey", ADMIN),
)

AUDIT = (operation("audit.list", "GET /audit", VIEW),)

API_KEYS = (
    operation("api_keys.list", "GET /api-keys", ADMIN),
    operation("api_keys.add", "POST /api-keys", ADMIN, status=201),
    operation("api_keys.revoke", "DELETE /api-keys/{name}", ADMIN),
)

OPERATIONS = (
    *RUN,
    *GATES,
    *WAITS,
    *SCHEDULES,
    *LANES,
    *WORKERS,
    *BUDGETS,
    *BULK_OPERATIONS,
    *FLOWS,
    *SUBSCRIPTIONS,
    *STORAGE,
    *AUDIT,
    *API_KEYS,
)
