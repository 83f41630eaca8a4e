-- The keys that sign tokens.

-- name: keys
SELECT kid, secret, created_at, expires_at FROM holdfast.key ORDER BY created_at, (expires_at IS NULL), expires_at, kid;

-- name: insert_key
INSERT INTO holdfast.key (kid, secret, created_at, expires_at) VALUES (:kid, :secret, :created_at, :expires_at)
    ON CONFLICT DO NOTHING;

-- name: retire_key
UPDATE holdfast.key SET expires_at = :expires_at WHERE expires_at IS NULL;

-- name: delete_one_key
DELETE FROM holdfast.key WHERE kid = :kid;

-- name: reseal_key
UPDATE holdfast.key SET secret = :new WHERE kid = :kid AND secret = :old;

-- name: lock_keys
-- Nothing to lock in SQLite: no other process writes during this transaction.
SELECT kid FROM holdfast.key ORDER BY kid;
