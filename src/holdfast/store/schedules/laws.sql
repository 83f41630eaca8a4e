-- Laws about schedules. A unique index enforces that at most one run of a schedule without overlap
-- is live.

-- name: a_tick_belongs_to_a_run
SELECT run_id FROM holdfast.tick AS tick
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = tick.run_id);

-- name: a_tick_has_one_run
SELECT schedule FROM holdfast.tick WHERE kind <> 'trigger'
 GROUP BY namespace, schedule, at HAVING COUNT(DISTINCT run_id) > 1;

-- name: a_schedule_with_a_next_tick_is_paused_or_has_a_wake_time
SELECT name FROM holdfast.schedule WHERE next_at IS NOT NULL AND paused IS NULL AND wake_at IS NULL;

-- name: a_paused_schedule_has_no_wake_time
SELECT name FROM holdfast.schedule WHERE paused IS NOT NULL AND wake_at IS NOT NULL;

-- name: only_a_schedule_with_overlap_queue_or_cancel_has_queued_ticks
SELECT name FROM holdfast.schedule WHERE queued IS NOT NULL AND overlap NOT IN ('queue', 'cancel');

-- name: the_last_tick_of_a_schedule_is_before_its_next_tick
SELECT name FROM holdfast.schedule WHERE last_at >= next_at;
