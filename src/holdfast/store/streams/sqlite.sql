-- The output of runs: the queries that SQLite needs in its own dialect; lists are passed as JSON.

-- name: leases_of
SELECT id, generation, session_id FROM holdfast.run WHERE id IN (SELECT value FROM json_each(:ids));

-- name: outputs_of
SELECT run_id, last_seq, streams FROM holdfast.output WHERE run_id IN (SELECT value FROM json_each(:ids));

-- name: open_streams_of
SELECT run_id, number, step, attempt, generation, frames, said, kept_durable, kept_summary, kept_best_effort, first_seq, version
  FROM holdfast.stream
 WHERE closed_at IS NULL AND run_id IN (SELECT value FROM json_each(:ids));
