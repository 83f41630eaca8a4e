-- Signing keys: the queries that PostgreSQL needs in its own dialect.

-- name: lock_keys
-- Differs from SQLite: of two concurrent rotations, the second must see the result of the first.
SELECT kid FROM holdfast.key ORDER BY kid FOR UPDATE;
