-- What PostgreSQL says in its own way.

-- name: append_guarded
-- Differs from SQLite: the events of many runs travel as arrays, in one statement; the leases are locked, so that nobody takes
-- a run over between the check and the commit.
WITH wanted AS (
    SELECT * FROM UNNEST(CAST(:run_ids AS TEXT[]), CAST(:generations AS BIGINT[]), CAST(:seqs AS BIGINT[]), CAST(:kinds AS TEXT[]),
                         CAST(:steps AS TEXT[]), CAST(:attempts AS BIGINT[]), CAST(:datas AS BYTEA[]), CAST(:errors AS BYTEA[]),
                         CAST(:starteds AS BIGINT[]), CAST(:ats AS BIGINT[]))
        AS wanted (run_id, generation, seq, kind, step, attempt, data, error, started_at, at)
), leased AS (
    SELECT run.id, run.generation FROM holdfast.run AS run
     WHERE run.id = ANY(CAST(:run_ids AS TEXT[])) AND run.session_id IS NOT NULL
     ORDER BY run.id
       FOR SHARE
)
INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, data, error, started_at, at)
SELECT wanted.run_id, seq, kind, step, attempt, data, error, started_at, at
  FROM wanted JOIN leased ON leased.id = wanted.run_id AND leased.generation = wanted.generation
RETURNING run_id, seq;
