-- Laws about shares of lanes.

-- name: a_share_is_free_again_when_its_window_has_passed
-- With a day for clocks that differ.
SELECT share.lane || ' ' || share.share AS id
  FROM holdfast.share AS share JOIN holdfast.lane AS lane ON lane.name = share.lane
 WHERE share.free_at > :now + COALESCE(lane.share_rate_per, 0) + 86400000000;
