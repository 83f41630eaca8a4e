"""The idempotency keys of requests over HTTP."""
