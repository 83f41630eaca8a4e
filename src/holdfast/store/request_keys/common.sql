-- The idempotency keys of requests.

-- name: insert_request_key
INSERT INTO holdfast.request_key (id, digest, at) VALUES (:id, :digest, :at) ON CONFLICT DO NOTHING;

-- name: request_key
SELECT digest, at FROM holdfast.request_key WHERE id = :id;

-- name: release_request_key
DELETE FROM holdfast.request_key WHERE id = :id AND digest = :digest;

-- name: forget_request_keys
DELETE FROM holdfast.request_key WHERE at < :before;
