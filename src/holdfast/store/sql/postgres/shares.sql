-- Shares, where PostgreSQL says it in its own way.

-- name: ready_by_share
-- Differs from SQLite: lists travel as arrays, and what another process is claiming is left to it.
WITH RECURSIVE wanted (share) AS (
    SELECT MIN(share) FROM holdfast.run
     WHERE route_id = :route_id AND rank IS NOT NULL AND share IS NOT NULL AND crashes < 2
     UNION ALL
    SELECT (SELECT MIN(run.share) FROM holdfast.run AS run
             WHERE run.route_id = :route_id AND run.rank IS NOT NULL AND run.share IS NOT NULL AND run.crashes < 2
               AND run.share > wanted.share)
      FROM wanted WHERE wanted.share IS NOT NULL
)
SELECT found.id, found.rank, found.share
  FROM wanted
 CROSS JOIN LATERAL (SELECT run.id, run.rank, run.share
                       FROM holdfast.run AS run
                      WHERE run.route_id = :route_id AND run.share = wanted.share AND run.rank IS NOT NULL
                        AND run.share IS NOT NULL AND run.crashes < 2
                      ORDER BY run.rank LIMIT :each
                        FOR NO KEY UPDATE SKIP LOCKED) AS found
 WHERE NOT wanted.share = ANY(CAST(:full AS TEXT[]))
 ORDER BY found.rank LIMIT :limit;

-- name: gathering
-- Differs from SQLite: those who start with the same key come one after another.
SELECT run_id, count, latest FROM holdfast.gathering WHERE key = :key FOR NO KEY UPDATE;

-- name: gathered_input
-- Differs from SQLite: the row is locked.
SELECT input, priority FROM holdfast.run
 WHERE id = :run_id AND status = 'pending' AND started_at IS NULL AND session_id IS NULL AND rank IS NULL AND wake_at IS NOT NULL
   FOR NO KEY UPDATE;
