-- Laws about lanes and their shares.

-- name: a_share_is_blocked_no_longer_than_its_rate_window
-- A day is added, because clocks may differ.
SELECT share.lane || ' ' || share.share AS id
  FROM holdfast.share AS share JOIN holdfast.lane AS lane ON lane.name = share.lane
 WHERE share.free_at > :now + COALESCE(lane.share_rate_per, 0) + 86400000000;

-- name: the_limits_of_a_lane_are_valid
SELECT name FROM holdfast.lane
 WHERE concurrency < 0 OR per_share < 0 OR rate_limit < 1 OR rate_per < 1 OR share_rate_limit < 1 OR share_rate_per < 1
    OR (rate_limit IS NULL) <> (rate_per IS NULL) OR (share_rate_limit IS NULL) <> (share_rate_per IS NULL);

-- name: a_gathering_belongs_to_a_run
SELECT key FROM holdfast.gathering AS gathering
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = gathering.run_id);
