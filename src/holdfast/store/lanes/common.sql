-- Shares of lanes, and debounced starts.

-- name: held_by_share
-- Running runs of each lane by share; NULL is the share of runs without one.
SELECT route.lane AS lane, run.share AS share, COUNT(*) AS held
  FROM holdfast.run AS run JOIN holdfast.route AS route ON route.id = run.route_id
 WHERE session_id IS NOT NULL AND status <> 'waiting'
 GROUP BY route.lane, run.share;

-- name: ready_by_lane
-- The runs that wait for a worker. The runs of a route are counted in its index alone.
SELECT route.lane AS lane, CAST(SUM(counted.ready) AS BIGINT) AS ready
  FROM (SELECT route_id, COUNT(*) AS ready FROM holdfast.run WHERE rank IS NOT NULL AND crashes < 2 GROUP BY route_id
         UNION ALL
        SELECT route_id, COUNT(*) AS ready FROM holdfast.run WHERE rank IS NOT NULL AND crashes >= 2 GROUP BY route_id) AS counted
  JOIN holdfast.route AS route ON route.id = counted.route_id
 GROUP BY route.lane;

-- name: spent_shares
-- The shares whose rate is used up.
SELECT share, free_at FROM holdfast.share WHERE lane = :lane AND free_at > :now;

-- name: free_at
-- When the rate allows the next run of a share, as far as it is known.
SELECT free_at FROM holdfast.share WHERE lane = :lane AND share = :share;

-- name: admit
INSERT INTO holdfast.rate_admission AS admission (lane, share, at, number, count) VALUES (:lane, :share, :at, :number, :count)
    ON CONFLICT (lane, share, at) DO UPDATE SET number = excluded.number, count = admission.count + excluded.count;

-- name: forget_admissions
DELETE FROM holdfast.rate_admission WHERE lane = :lane AND share = '' AND at <= :before;

-- name: forget_share_admissions
DELETE FROM holdfast.rate_admission WHERE lane = :lane AND share <> '' AND at <= :before;

-- name: free_lane
-- The rate allows the next run when the oldest of the last `limit` admissions leaves the window; at
-- once if there are fewer.
UPDATE holdfast.lane
   SET free_at = COALESCE((SELECT MIN(gone.at) + :per FROM holdfast.rate_admission AS gone
                            WHERE gone.lane = :lane AND gone.share = ''
                              AND gone.number > :edge AND gone.number - gone.count <= :edge), 0)
 WHERE name = :lane;

-- name: free_share
INSERT INTO holdfast.share AS share (lane, share, free_at)
VALUES (:lane, :share, COALESCE((SELECT MIN(gone.at) + :per FROM holdfast.rate_admission AS gone
                                  WHERE gone.lane = :lane AND gone.share = :share
                                    AND gone.number > :edge AND gone.number - gone.count <= :edge), 0))
    ON CONFLICT (lane, share) DO UPDATE SET free_at = excluded.free_at;

-- name: admitted_shares
-- The number of the last admission, by share.
SELECT share, MAX(number) AS number FROM holdfast.rate_admission WHERE lane = :lane GROUP BY share ORDER BY share;

-- name: remove_lane
DELETE FROM holdfast.lane WHERE name = :name;

-- name: remove_shares
DELETE FROM holdfast.share WHERE lane = :lane;

-- name: remove_admissions
DELETE FROM holdfast.rate_admission WHERE lane = :lane;

-- name: live_runs_of_lane
SELECT run.id AS id
  FROM holdfast.route AS route JOIN holdfast.run AS run ON run.route_id = route.id
 WHERE route.lane = :lane AND run.finished_at IS NULL
 ORDER BY run.id LIMIT :limit;

-- name: free_shares
UPDATE holdfast.share SET free_at = 0 WHERE lane = :lane AND free_at > 0;

-- name: set_share_clock
INSERT INTO holdfast.share AS share (lane, share, vtime) VALUES (:lane, :share, :vtime)
    ON CONFLICT (lane, share) DO UPDATE SET vtime = excluded.vtime;

-- name: begin_share_clocks
-- A virtual time that is not ahead of the lane's has no effect anyway.
UPDATE holdfast.share SET vtime = 0 WHERE lane = :lane AND vtime > :now;

-- name: share_clock
-- The virtual times of a lane and of one of its shares, the weights of the shares, and whether runs
-- of shares are ready.
SELECT (SELECT vtime FROM holdfast.share WHERE lane = :lane AND share = '') AS lane_vtime,
       (SELECT vtime FROM holdfast.share WHERE lane = :lane AND share = :share) AS vtime,
       (SELECT weights FROM holdfast.lane WHERE name = :lane) AS weights,
       EXISTS (SELECT 1 FROM holdfast.route AS route JOIN holdfast.run AS run ON run.route_id = route.id
                WHERE route.lane = :lane AND run.rank IS NOT NULL AND run.share IS NOT NULL AND run.crashes < 2) AS busy;

-- name: ready_unshared
SELECT id, rank, share, started_at FROM holdfast.run
 WHERE route_id = :route_id AND rank IS NOT NULL AND crashes < 2 AND share IS NULL
 ORDER BY rank LIMIT :limit;

-- name: gathering
SELECT run_id, count, latest FROM holdfast.gathering WHERE key = :key;

-- name: open_gathering
-- A concurrent start with the same key waits for this transaction, and then joins its run.
INSERT INTO holdfast.gathering (run_id, key, count, latest) VALUES (:run_id, :key, 1, :latest) ON CONFLICT DO NOTHING;

-- name: save_gathering
INSERT INTO holdfast.gathering (run_id, key, count, latest) VALUES (:run_id, :key, :count, :latest)
    ON CONFLICT (key) DO UPDATE SET run_id = excluded.run_id, count = excluded.count, latest = excluded.latest;

-- name: gathered_input
-- The input of a debounced run that has not begun.
SELECT holdfast.input_of(run) AS input, priority FROM holdfast.run AS run
 WHERE id = :run_id AND status = 'pending' AND started_at IS NULL AND session_id IS NULL AND rank IS NULL AND wake_at IS NOT NULL;

-- name: gather_into
UPDATE holdfast.run SET input = :input, wake_at = :wake_at, rank = :rank WHERE id = :run_id;

-- name: forget_damaged_share
DELETE FROM holdfast.share WHERE lane = :lane AND share = :share;

-- name: forget_damaged_admission
DELETE FROM holdfast.rate_admission WHERE lane = :lane AND share = :share;

-- name: forget_damaged_gathering
DELETE FROM holdfast.gathering WHERE key = :key;
