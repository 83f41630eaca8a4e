-- Shares of lanes: the queries that SQLite needs in its own dialect.

-- name: ready_by_share
-- Differs from Postgres: lists are passed as JSON. The best runs of each share that has room, found
-- by index regardless of how many are ready.
WITH RECURSIVE wanted (share) AS (
    SELECT MIN(share) FROM holdfast.run
     WHERE route_id = :route_id AND rank IS NOT NULL AND share IS NOT NULL AND crashes < 2
     UNION ALL
    SELECT (SELECT MIN(run.share) FROM holdfast.run AS run
             WHERE run.route_id = :route_id AND run.rank IS NOT NULL AND run.share IS NOT NULL AND run.crashes < 2
               AND run.share > wanted.share)
      FROM wanted WHERE wanted.share IS NOT NULL
)
SELECT run.id, run.rank, run.share, run.started_at
  FROM wanted JOIN holdfast.run AS run
    ON run.id IN (SELECT best.id FROM holdfast.run AS best
                   WHERE best.route_id = :route_id AND best.share = wanted.share AND best.rank IS NOT NULL
                     AND best.share IS NOT NULL AND best.crashes < 2
                   ORDER BY best.rank LIMIT :each)
 WHERE wanted.share NOT IN (SELECT value FROM json_each(:full))
 ORDER BY run.rank LIMIT :limit;

-- name: windows
-- Differs from Postgres: lists are passed as JSON. For each share the number and time of its last
-- admission, and how many admissions have left the window.
SELECT wanted.value AS share, newest.number AS total, newest.at AS last_at,
       (SELECT oldest.number - oldest.count FROM holdfast.rate_admission AS oldest
         WHERE oldest.lane = :lane AND oldest.share = wanted.value AND oldest.at > :since
         ORDER BY oldest.at LIMIT 1) AS base
  FROM json_each(:shares) AS wanted
  JOIN holdfast.rate_admission AS newest
    ON newest.lane = :lane AND newest.share = wanted.value
   AND newest.at = (SELECT MAX(at) FROM holdfast.rate_admission AS one WHERE one.lane = :lane AND one.share = wanted.value);

-- name: usage_at_start
-- Differs from Postgres: lists are passed as JSON. The facts that decide whether runs of these
-- shares may start in a lane, one per row: 'held' (how many runs of the lane or of a share are
-- running), 'waits' (some runs are claimable already) or 'began' (the last admission, its time, and
-- what has left the window). The share '' is the lane as a whole.
WITH held AS MATERIALIZED (
    SELECT share, COUNT(*) AS held FROM holdfast.run
     WHERE session_id IS NOT NULL AND status <> 'waiting' AND :counted = 1
       AND route_id IN (SELECT id FROM holdfast.route WHERE lane = :lane)
     GROUP BY share
)
SELECT 'held' AS fact, :lane AS lane, NULL AS share, COALESCE(SUM(held), 0) AS one, NULL AS two,
       NULL AS three FROM held
 UNION ALL
SELECT 'waits', :lane, NULL, 1, NULL, NULL
 WHERE EXISTS (SELECT 1 FROM holdfast.route AS route JOIN holdfast.run AS run ON run.route_id = route.id
                WHERE route.lane = :lane AND run.rank IS NOT NULL AND run.crashes < 2)
 UNION ALL
SELECT 'held', :lane, share, held, NULL, NULL FROM held WHERE share IN (SELECT value FROM json_each(:shares))
 UNION ALL
SELECT 'began', :lane, wanted.value, newest.number, newest.at,
       (SELECT oldest.number - oldest.count FROM holdfast.rate_admission AS oldest
         WHERE oldest.lane = :lane AND oldest.share = wanted.value
           AND oldest.at > CASE WHEN wanted.value = '' THEN :since ELSE :share_since END
         ORDER BY oldest.at LIMIT 1)
  FROM json_each(:shares) AS wanted
  JOIN holdfast.rate_admission AS newest
    ON newest.lane = :lane AND newest.share = wanted.value
   AND newest.at = (SELECT MAX(at) FROM holdfast.rate_admission AS one WHERE one.lane = :lane AND one.share = wanted.value);
