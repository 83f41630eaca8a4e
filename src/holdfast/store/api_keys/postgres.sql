-- The API keys of the server: the queries that PostgreSQL needs in its own dialect.

-- name: usable_api_key
-- Differs from SQLite: the row is locked, so that a login that is opened with the key commits before
-- the key is revoked, and is deleted with it.
SELECT id FROM holdfast.api_key WHERE id = :id AND revoked_at IS NULL FOR SHARE;
