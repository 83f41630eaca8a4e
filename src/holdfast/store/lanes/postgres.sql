-- Shares of lanes: the queries that PostgreSQL needs in its own dialect.

-- name: claimable_by_lane
-- The claimable runs, and the facts that decide about them, in one answer, one per row: 'ready' (a
-- run: its rank, when it first began, and whether it is a suspect), 'held' (how many runs of a lane
-- or of one of its shares are running) or 'began' (the last admission of a lane or a share, its
-- time, and what has left the window). Executed after the lanes are locked, so that meanwhile runs
-- can only end. The best runs of each share that has room are found by index, regardless of how
-- many are ready; runs that another process has locked are skipped.
WITH RECURSIVE held AS MATERIALIZED (
    SELECT route.lane, run.share, SUM(run.held) AS held
      FROM (SELECT route_id, share, COUNT(*) AS held FROM holdfast.run
             WHERE session_id IS NOT NULL AND status <> 'waiting'
               AND EXISTS (SELECT 1 FROM holdfast.lane
                            WHERE name = ANY(CAST(:lanes AS TEXT[])) AND (concurrency IS NOT NULL OR per_share IS NOT NULL))
             GROUP BY route_id, share) AS run
      JOIN holdfast.route AS route ON route.id = run.route_id
     GROUP BY route.lane, run.share
), lane AS MATERIALIZED (
    SELECT name, per_share, share_rate_limit, share_rate_per, rate_per,
           (per_share IS NOT NULL OR share_rate_limit IS NOT NULL) AS by_share,
           GREATEST(LEAST(:limit, CASE WHEN paused = 1 THEN 0 ELSE concurrency - COALESCE(
               (SELECT SUM(held.held) FROM held WHERE held.lane = lane.name), 0) END), 0) AS room
      FROM holdfast.lane AS lane
     WHERE name = ANY(CAST(:lanes AS TEXT[]))
), wanted AS MATERIALIZED (
    SELECT route.id AS route_id, route.lane, COALESCE(lane.by_share, FALSE) AS by_share, COALESCE(lane.room, :limit) AS room
      FROM UNNEST(CAST(:route_ids AS BIGINT[]), CAST(:lanes AS TEXT[])) AS route (id, lane) LEFT JOIN lane ON lane.name = route.lane
), line (route_id, lane, share) AS (
    SELECT wanted.route_id, wanted.lane,
           (SELECT MIN(run.share) FROM holdfast.run AS run
             WHERE run.route_id = wanted.route_id AND run.rank IS NOT NULL AND run.share IS NOT NULL AND run.crashes < 2)
      FROM wanted WHERE wanted.by_share AND wanted.room > 0
     UNION ALL
    SELECT line.route_id, line.lane,
           (SELECT MIN(run.share) FROM holdfast.run AS run
             WHERE run.route_id = line.route_id AND run.rank IS NOT NULL AND run.share IS NOT NULL AND run.crashes < 2
               AND run.share > line.share)
      FROM line WHERE line.share IS NOT NULL
), best AS (
    SELECT found.id
      FROM wanted
     CROSS JOIN LATERAL (SELECT run.id
                           FROM holdfast.run AS run
                          WHERE run.route_id = wanted.route_id AND run.rank IS NOT NULL AND run.crashes < 2
                            AND (run.share IS NULL OR NOT wanted.by_share)
                          ORDER BY run.rank, run.id LIMIT wanted.room) AS found
     UNION ALL
    SELECT found.id
      FROM wanted
     CROSS JOIN LATERAL (SELECT each.id
                           FROM line JOIN lane ON lane.name = line.lane
                           LEFT JOIN held ON held.lane = line.lane AND held.share = line.share
                          CROSS JOIN LATERAL (SELECT run.id, run.rank
                                                FROM holdfast.run AS run
                                               WHERE run.route_id = line.route_id AND run.share = line.share
                                                 AND run.rank IS NOT NULL AND run.share IS NOT NULL AND run.crashes < 2
                                               ORDER BY run.rank
                                               LIMIT GREATEST(LEAST(lane.room, lane.per_share - COALESCE(held.held, 0),
                                                                    lane.share_rate_limit), 0)) AS each
                          WHERE line.route_id = wanted.route_id
                            AND NOT EXISTS (SELECT 1 FROM holdfast.share AS spent
                                             WHERE spent.lane = line.lane AND spent.share = line.share AND spent.free_at > :now
                                               AND lane.share_rate_limit IS NOT NULL)
                          ORDER BY each.rank, each.id LIMIT wanted.room) AS found
     WHERE wanted.by_share
     UNION ALL
    SELECT found.id
      FROM wanted
     CROSS JOIN LATERAL (SELECT run.id
                           FROM holdfast.run AS run
                          WHERE run.route_id = wanted.route_id AND run.rank IS NOT NULL AND run.crashes >= 2
                          ORDER BY run.rank, run.id LIMIT 1) AS found
     WHERE CAST(:suspects AS BIGINT) = 1
), picked AS MATERIALIZED (
    SELECT run.id, run.rank, run.share, run.started_at, run.crashes, route.lane
      FROM holdfast.run AS run JOIN holdfast.route AS route ON route.id = run.route_id
     WHERE run.id = ANY(ARRAY(SELECT id FROM best)) AND run.rank IS NOT NULL
       FOR NO KEY UPDATE OF run SKIP LOCKED
), asked AS (
    SELECT DISTINCT picked.lane, picked.share, :now - lane.share_rate_per AS since
      FROM picked JOIN lane ON lane.name = picked.lane
     WHERE picked.share IS NOT NULL AND lane.share_rate_per IS NOT NULL
     UNION ALL
    SELECT name, '', :now - rate_per FROM lane WHERE rate_per IS NOT NULL
)
SELECT 'ready' AS fact, id, lane, share, rank AS one, started_at AS two, CAST(CASE WHEN crashes < 2 THEN 0 ELSE 1 END AS BIGINT) AS three
  FROM picked
 UNION ALL
SELECT 'held', NULL, held.lane, NULL, CAST(SUM(held.held) AS BIGINT), NULL, NULL FROM held GROUP BY held.lane
 UNION ALL
SELECT 'held', NULL, held.lane, held.share, CAST(held.held AS BIGINT), NULL, NULL
  FROM held JOIN (SELECT DISTINCT picked.lane, picked.share FROM picked) AS picked
    ON picked.lane = held.lane AND picked.share = held.share
 UNION ALL
SELECT 'began', NULL, asked.lane, asked.share, newest.number, newest.at, oldest.number - oldest.count
  FROM asked
 CROSS JOIN LATERAL (SELECT number, at FROM holdfast.rate_admission AS admission
                      WHERE admission.lane = asked.lane AND admission.share = asked.share
                      ORDER BY at DESC LIMIT 1) AS newest
  LEFT JOIN LATERAL (SELECT number, count FROM holdfast.rate_admission AS admission
                      WHERE admission.lane = asked.lane AND admission.share = asked.share AND admission.at > asked.since
                      ORDER BY at LIMIT 1) AS oldest ON TRUE;

-- name: usage_at_start
-- Differs from SQLite: lists are passed as arrays. The facts that decide whether runs of these
-- shares may start in a lane, in the form of `claimable_by_lane`, and whether some runs are claimable
-- already. The share '' is the lane as a whole.
WITH held AS MATERIALIZED (
    SELECT share, COUNT(*) AS held FROM holdfast.run
     WHERE session_id IS NOT NULL AND status <> 'waiting' AND CAST(:counted AS BIGINT) = 1
       AND route_id IN (SELECT id FROM holdfast.route WHERE lane = :lane)
     GROUP BY share
)
SELECT 'held' AS fact, CAST(:lane AS TEXT) AS lane, NULL AS share, CAST(COALESCE(SUM(held), 0) AS BIGINT) AS one, CAST(NULL AS BIGINT) AS two,
       CAST(NULL AS BIGINT) AS three FROM held
 UNION ALL
SELECT 'waits', :lane, NULL, 1, NULL, NULL
 WHERE EXISTS (SELECT 1 FROM holdfast.route AS route JOIN holdfast.run AS run ON run.route_id = route.id
                WHERE route.lane = :lane AND run.rank IS NOT NULL AND run.crashes < 2)
 UNION ALL
SELECT 'held', :lane, share, held, NULL, NULL FROM held WHERE share = ANY(CAST(:shares AS TEXT[]))
 UNION ALL
SELECT 'began', :lane, wanted.share, newest.number, newest.at, oldest.number - oldest.count
  FROM UNNEST(CAST(:shares AS TEXT[])) AS wanted (share)
 CROSS JOIN LATERAL (SELECT number, at FROM holdfast.rate_admission AS admission
                      WHERE admission.lane = :lane AND admission.share = wanted.share
                      ORDER BY at DESC LIMIT 1) AS newest
  LEFT JOIN LATERAL (SELECT number, count FROM holdfast.rate_admission AS admission
                      WHERE admission.lane = :lane AND admission.share = wanted.share
                        AND admission.at > CASE WHEN wanted.share = '' THEN CAST(:since AS BIGINT) ELSE CAST(:share_since AS BIGINT) END
                      ORDER BY at LIMIT 1) AS oldest ON TRUE;

-- name: lease_within_limits
-- `lease_runs` for lanes with limits, together with the admissions, the removal of admissions that
-- have left the windows, and the virtual times of the lanes.
WITH leased AS (
    UPDATE holdfast.run AS run
       SET status = claim.becomes, session_id = :session_id, generation = generation + 1, rank = NULL,
           started_at = COALESCE(started_at, :now)
      FROM UNNEST(CAST(:was AS TEXT[]), CAST(:becomes AS TEXT[])) AS claim (was, becomes), holdfast.route AS route
     WHERE run.id = ANY(CAST(:ids AS TEXT[])) AND run.rank IS NOT NULL AND run.status = claim.was AND route.id = run.route_id
       AND EXISTS (SELECT 1 FROM holdfast.session WHERE id = :session_id FOR KEY SHARE)
    RETURNING holdfast.columns_of(run)
), turned AS (
    INSERT INTO holdfast.share AS share (lane, share, vtime)
    SELECT turn.lane, '', turn.vtime FROM UNNEST(CAST(:turn_lane AS TEXT[]), CAST(:turn_vtime AS BIGINT[])) AS turn (lane, vtime)
        ON CONFLICT (lane, share) DO UPDATE SET vtime = excluded.vtime
), gone AS (
    DELETE FROM holdfast.rate_admission AS admission
     USING UNNEST(CAST(:gone_lane AS TEXT[]), CAST(:gone_before AS BIGINT[])) AS gone (lane, before)
     WHERE admission.lane = gone.lane AND admission.share = '' AND admission.at <= gone.before
), gone_shares AS (
    DELETE FROM holdfast.rate_admission AS admission
     USING UNNEST(CAST(:gone_shares_lane AS TEXT[]), CAST(:gone_shares_before AS BIGINT[])) AS gone (lane, before)
     WHERE admission.lane = gone.lane AND admission.share <> '' AND admission.at <= gone.before
), begun AS (
    INSERT INTO holdfast.rate_admission AS admission (lane, share, at, number, count)
    SELECT * FROM UNNEST(CAST(:begun_lane AS TEXT[]), CAST(:begun_share AS TEXT[]), CAST(:begun_at AS BIGINT[]),
                         CAST(:begun_number AS BIGINT[]), CAST(:begun_count AS BIGINT[]))
        ON CONFLICT (lane, share, at) DO UPDATE SET number = excluded.number, count = admission.count + excluded.count
)
SELECT * FROM leased;

-- name: admit_all
-- `admit` for many rows.
INSERT INTO holdfast.rate_admission AS admission (lane, share, at, number, count)
SELECT * FROM UNNEST(CAST(:lane AS TEXT[]), CAST(:share AS TEXT[]), CAST(:at AS BIGINT[]), CAST(:number AS BIGINT[]),
                     CAST(:count AS BIGINT[]))
    ON CONFLICT (lane, share, at) DO UPDATE SET number = excluded.number, count = admission.count + excluded.count;

-- name: set_share_clocks
-- `set_share_clock` for many rows.
INSERT INTO holdfast.share AS share (lane, share, vtime)
SELECT * FROM UNNEST(CAST(:lane AS TEXT[]), CAST(:share AS TEXT[]), CAST(:vtime AS BIGINT[]))
    ON CONFLICT (lane, share) DO UPDATE SET vtime = excluded.vtime;

-- name: gathering
-- Differs from SQLite: concurrent starts with the same key take turns.
SELECT run_id, count, latest FROM holdfast.gathering WHERE key = :key FOR NO KEY UPDATE;

-- name: gathered_input
-- Differs from SQLite: the row is locked.
SELECT input, priority FROM holdfast.run
 WHERE id = :run_id AND status = 'pending' AND started_at IS NULL AND session_id IS NULL AND rank IS NULL AND wake_at IS NOT NULL
   FOR NO KEY UPDATE;
