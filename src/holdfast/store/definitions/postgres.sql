-- Stored definitions: the queries that PostgreSQL needs in its own dialect.

-- name: lock_definitions
-- Differs from SQLite: a name that has no version yet has no row to lock.
SELECT 1 AS locked FROM pg_advisory_xact_lock(hashtextextended(
    CAST(:namespace AS TEXT) || ' ' || CAST(:kind AS TEXT) || ' ' || CAST(:name AS TEXT), 7));

-- name: share_definition_contents
-- Differs from SQLite: several transactions write, and the content of a new definition may be there
-- already.
SELECT 1 AS locked FROM pg_advisory_xact_lock_shared(hashtextextended('holdfast contents', 7));

-- name: lock_definition_contents
-- Differs from SQLite: a content must not be deleted while another transaction writes a definition
-- that it belongs to.
SELECT 1 AS locked FROM pg_advisory_xact_lock(hashtextextended('holdfast contents', 7));
