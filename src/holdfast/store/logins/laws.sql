-- Laws about login sessions.

-- name: a_login_session_of_a_revoked_api_key_is_gone
SELECT login.id FROM holdfast.login AS login JOIN holdfast.api_key AS api_key ON api_key.id = login.api_key_id
 WHERE api_key.revoked_at IS NOT NULL;
