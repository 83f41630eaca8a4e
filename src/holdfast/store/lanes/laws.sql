-- Laws about lanes and their shares.

-- name: a_share_is_free_again_when_its_window_has_passed
-- A day is added, because clocks may differ.
SELECT share.lane || ' ' || share.share AS id
  FROM holdfast.share AS share JOIN holdfast.lane AS lane ON lane.name = share.lane
 WHERE share.free_at > :now + COALESCE(lane.share_rate_per, 0) + 86400000000;

-- name: a_lane_has_limits_that_let_something_begin
SELECT name FROM holdfast.lane
 WHERE concurrency < 0 OR per_share < 0 OR rate_limit < 1 OR rate_per < 1 OR share_rate_limit < 1 OR share_rate_per < 1
    OR (rate_limit IS NULL) <> (rate_per IS NULL) OR (share_rate_limit IS NULL) <> (share_rate_per IS NULL);

-- name: starts_are_gathered_in_a_run
SELECT key FROM holdfast.gathering AS gathering
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = gathering.run_id);
