-- Laws about schedules. A unique index enforces that at most one run of a schedule without overlap
-- is live.

-- name: a_tick_belongs_to_a_run
SELECT run_id FROM holdfast.tick AS tick
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = tick.run_id);

-- name: a_tick_has_one_run
SELECT schedule FROM holdfast.tick WHERE kind <> 'trigger'
 GROUP BY namespace, schedule, at HAVING COUNT(DISTINCT run_id) > 1;

-- name: a_schedule_that_ticks_again_is_paused_or_will_be_seen_to
SELECT name FROM holdfast.schedule WHERE next_at IS NOT NULL AND paused IS NULL AND wake_at IS NULL;

-- name: a_paused_schedule_starts_nothing
SELECT name FROM holdfast.schedule WHERE paused IS NOT NULL AND wake_at IS NOT NULL;

-- name: ticks_wait_only_where_they_may
SELECT name FROM holdfast.schedule WHERE queued IS NOT NULL AND overlap NOT IN ('queue', 'cancel');

-- name: a_schedule_has_not_started_a_tick_that_is_to_come
SELECT name FROM holdfast.schedule WHERE last_at >= next_at;
