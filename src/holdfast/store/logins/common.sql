-- Login sessions of browsers, and one-time links.

-- name: insert_login
INSERT INTO holdfast.login
    (id, digest, is_link, api_key_id, name, roles, namespace, gate_roles, sees_values, created_at, expires_at)
VALUES
    (:id, :digest, :is_link, :api_key_id, :name, :roles, :namespace, :gate_roles, :sees_values, :created_at, :expires_at);

-- name: login
SELECT id, digest, is_link, api_key_id, name, roles, namespace, gate_roles, sees_values, created_at, expires_at
  FROM holdfast.login WHERE id = :id AND expires_at > :now;

-- name: logins
SELECT id, digest, is_link, api_key_id, name, roles, namespace, gate_roles, sees_values, created_at, expires_at
  FROM holdfast.login WHERE is_link = 0 AND expires_at > :now ORDER BY created_at DESC, id DESC;

-- name: delete_login
DELETE FROM holdfast.login WHERE id = :id;

-- name: delete_logins_of_api_key
DELETE FROM holdfast.login WHERE api_key_id = :api_key_id;

-- name: delete_expired_logins
DELETE FROM holdfast.login WHERE expires_at <= :now;
