-- The output of runs: the queries that PostgreSQL needs in its own dialect; lists are passed as
-- arrays, and the leases are locked.

-- name: leases_of
SELECT id, generation, session_id FROM holdfast.run WHERE id = ANY(CAST(:ids AS TEXT[])) ORDER BY id FOR NO KEY UPDATE;

-- name: outputs_of
SELECT run_id, last_seq, streams FROM holdfast.output WHERE run_id = ANY(CAST(:ids AS TEXT[]));

-- name: open_streams_of
SELECT run_id, number, step, attempt, generation, frames, said, kept_durable, kept_summary, kept_best_effort, first_seq, version
  FROM holdfast.stream
 WHERE closed_at IS NULL AND run_id = ANY(CAST(:ids AS TEXT[]));

-- name: insert_frames
-- `insert_frame` for many frames, with all values as arrays.
INSERT INTO holdfast.frame (run_id, seq, stream, kind, mode, name, data, nulls, version, at)
SELECT run_id, seq, stream, kind, mode, name, data, nulls, version, at
  FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:seq AS BIGINT[]), CAST(:stream AS BIGINT[]), CAST(:kind AS TEXT[]),
              CAST(:mode AS TEXT[]), CAST(:name AS TEXT[]), CAST(:data AS BYTEA[]), CAST(:nulls AS BYTEA[]),
              CAST(:version AS BIGINT[]), CAST(:at AS BIGINT[]))
    AS line (run_id, seq, stream, kind, mode, name, data, nulls, version, at);
