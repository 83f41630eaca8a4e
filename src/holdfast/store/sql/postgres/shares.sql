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
SELECT found.id, found.rank, found.share, found.started_at
  FROM wanted
 CROSS JOIN LATERAL (SELECT run.id, run.rank, run.share, run.started_at
                       FROM holdfast.run AS run
                      WHERE run.route_id = :route_id AND run.share = wanted.share AND run.rank IS NOT NULL
                        AND run.share IS NOT NULL AND run.crashes < 2
                      ORDER BY run.rank LIMIT :each
                        FOR NO KEY UPDATE SKIP LOCKED) AS found
 WHERE NOT wanted.share = ANY(CAST(:full AS TEXT[]))
 ORDER BY found.rank LIMIT :limit;

-- name: windows
-- Differs from SQLite: lists travel as arrays. Of shares: what began last, and what has left the window.
SELECT wanted.share, newest.number AS total, newest.at AS last_at, oldest.number - oldest.count AS base
  FROM UNNEST(CAST(:shares AS TEXT[])) AS wanted (share)
 CROSS JOIN LATERAL (SELECT number, at FROM holdfast.admission AS admission
                      WHERE admission.lane = :lane AND admission.share = wanted.share
                      ORDER BY at DESC LIMIT 1) AS newest
  LEFT JOIN LATERAL (SELECT number, count FROM holdfast.admission AS admission
                      WHERE admission.lane = :lane AND admission.share = wanted.share AND admission.at > :since
                      ORDER BY at LIMIT 1) AS oldest ON TRUE;

-- name: admit_all
-- Many at once.
INSERT INTO holdfast.admission AS admission (lane, share, at, number, count)
SELECT * FROM UNNEST(CAST(:lane AS TEXT[]), CAST(:share AS TEXT[]), CAST(:at AS BIGINT[]), CAST(:number AS BIGINT[]),
                     CAST(:count AS BIGINT[]))
    ON CONFLICT (lane, share, at) DO UPDATE SET number = excluded.number, count = admission.count + excluded.count;

-- name: set_share_clocks
-- Many at once.
INSERT INTO holdfast.share AS share (lane, share, vtime)
SELECT * FROM UNNEST(CAST(:lane AS TEXT[]), CAST(:share AS TEXT[]), CAST(:vtime AS BIGINT[]))
    ON CONFLICT (lane, share) DO UPDATE SET vtime = excluded.vtime;

-- name: gathering
-- Differs from SQLite: those who start with the same key come one after another.
SELECT run_id, count, latest FROM holdfast.gathering WHERE key = :key FOR NO KEY UPDATE;

-- name: gathered_input
-- Differs from SQLite: the row is locked.
SELECT input, priority FROM holdfast.run
 WHERE id = :run_id AND status = 'pending' AND started_at IS NULL AND session_id IS NULL AND rank IS NULL AND wake_at IS NOT NULL
   FOR NO KEY UPDATE;
