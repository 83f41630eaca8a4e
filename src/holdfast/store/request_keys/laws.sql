-- Laws about idempotency keys.

-- name: a_request_key_has_a_digest
SELECT id FROM holdfast.request_key WHERE length(digest) <> 32;
