-- Laws about API keys.

-- name: an_api_key_has_roles_and_a_name
SELECT id FROM holdfast.api_key WHERE roles = '' OR name = '';

-- name: an_api_key_is_revoked_after_its_creation
SELECT id FROM holdfast.api_key WHERE revoked_at < created_at;
