-- The API keys of the server.

-- name: insert_api_key
INSERT INTO holdfast.api_key
    (id, digest, name, roles, namespace, gate_roles, sees_values, created_at, created_by, expires_at)
VALUES
    (:id, :digest, :name, :roles, :namespace, :gate_roles, :sees_values, :created_at, :created_by, :expires_at)
    ON CONFLICT DO NOTHING;

-- name: api_keys
SELECT id, digest, name, roles, namespace, gate_roles, sees_values, created_at, created_by, expires_at, used_at, revoked_at
  FROM holdfast.api_key ORDER BY created_at DESC, id DESC;

-- name: api_key
SELECT id, digest, name, roles, namespace, gate_roles, sees_values, created_at, created_by, expires_at, used_at, revoked_at
  FROM holdfast.api_key WHERE id = :id;

-- name: api_key_named
-- A key that is not revoked comes before revoked keys of the same name, newest first.
SELECT id, digest, name, roles, namespace, gate_roles, sees_values, created_at, created_by, expires_at, used_at, revoked_at
  FROM holdfast.api_key WHERE id = :name OR name = :name
 ORDER BY (revoked_at IS NOT NULL), created_at DESC LIMIT 1;

-- name: usable_api_key
-- Expired keys, too: the server checks the time with every request.
SELECT id FROM holdfast.api_key WHERE id = :id AND revoked_at IS NULL;

-- name: any_api_key
SELECT id FROM holdfast.api_key
 WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now) LIMIT 1;

-- name: revoke_api_key
UPDATE holdfast.api_key SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL;

-- name: note_api_key_use
UPDATE holdfast.api_key SET used_at = :now WHERE id = :id AND (used_at IS NULL OR used_at < :now);
