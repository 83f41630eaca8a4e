-- What PostgreSQL says in its own way about keys.

-- name: lock_keys
-- Differs from SQLite: two may rotate at once, and the second must see what the first has done.
SELECT kid FROM holdfast.key ORDER BY kid FOR UPDATE;
