-- Commit markers: rows by which a process finds out whether its transaction was committed.

-- name: mark_commit
-- A transaction that has written nothing gets no row, which would make it wait for the disk: it can
-- simply be repeated.
INSERT INTO holdfast.commit_marker (id, at)
SELECT CAST(:id AS BIGINT), CAST(:now AS BIGINT) WHERE pg_current_xact_id_if_assigned() IS NOT NULL;

-- name: void_commit
-- Waits for the end of a transaction that has inserted the row and has not committed yet.
INSERT INTO holdfast.commit_marker (id, at, void) VALUES (:id, :now, 1) ON CONFLICT DO NOTHING;

-- name: commit_marker
SELECT void FROM holdfast.commit_marker WHERE id = :id;

-- name: forget_commits
DELETE FROM holdfast.commit_marker WHERE id = ANY(CAST(:ids AS BIGINT[]));

-- name: forget_old_commits
DELETE FROM holdfast.commit_marker WHERE at < :before;
