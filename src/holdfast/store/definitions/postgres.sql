-- Stored definitions: the queries that PostgreSQL needs in its own dialect.

-- name: lock_definitions
-- Differs from SQLite: a name that has no version yet has no row to lock.
SELECT 1 AS locked FROM pg_advisory_xact_lock(hashtextextended(
    CAST(:namespace AS TEXT) || ' ' || CAST(:kind AS TEXT) || ' ' || CAST(:name AS TEXT), 7));
