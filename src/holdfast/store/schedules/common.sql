-- Schedules and their ticks.

-- name: save_schedule
INSERT INTO holdfast.schedule (namespace, name, workflow, version, lane, capabilities, input, priority, tags, deadline, rule, zone,
                               overlap, queue_limit, misfire, catch_up, grace, jitter, origin, paused, anchor, next_at, wake_at,
                               last_at, queued, started, skipped, note, created_at)
VALUES (:namespace, :name, :workflow, :version, :lane, :capabilities, :input, :priority, :tags, :deadline, :rule, :zone,
        :overlap, :queue_limit, :misfire, :catch_up, :grace, :jitter, :origin, :paused, :anchor, :next_at, :wake_at,
        :last_at, :queued, :started, :skipped, :note, :created_at)
    ON CONFLICT (namespace, name) DO UPDATE
   SET workflow = excluded.workflow, version = excluded.version, lane = excluded.lane, capabilities = excluded.capabilities,
       input = excluded.input, priority = excluded.priority, tags = excluded.tags, deadline = excluded.deadline,
       rule = excluded.rule, zone = excluded.zone, overlap = excluded.overlap, queue_limit = excluded.queue_limit,
       misfire = excluded.misfire, catch_up = excluded.catch_up, grace = excluded.grace, jitter = excluded.jitter,
       origin = excluded.origin, paused = excluded.paused, anchor = excluded.anchor, next_at = excluded.next_at,
       wake_at = excluded.wake_at, last_at = excluded.last_at, queued = excluded.queued, started = excluded.started,
       skipped = excluded.skipped, note = excluded.note
 WHERE :replaces = 1;

-- name: delete_schedule
DELETE FROM holdfast.schedule WHERE namespace = :namespace AND name = :name;

-- name: schedule
SELECT namespace, name, workflow, version, lane, capabilities, input, priority, tags, deadline, rule, zone, overlap, queue_limit,
       misfire, catch_up, grace, jitter, origin, paused, anchor, next_at, wake_at, last_at, queued, started, skipped, note,
       created_at
  FROM holdfast.schedule
 WHERE namespace = :namespace AND name = :name;

-- name: load_schedule
-- `schedule`, to change it.
SELECT namespace, name, workflow, version, lane, capabilities, input, priority, tags, deadline, rule, zone, overlap, queue_limit,
       misfire, catch_up, grace, jitter, origin, paused, anchor, next_at, wake_at, last_at, queued, started, skipped, note,
       created_at
  FROM holdfast.schedule
 WHERE namespace = :namespace AND name = :name;

-- name: schedules
SELECT namespace, name, workflow, version, lane, capabilities, input, priority, tags, deadline, rule, zone, overlap, queue_limit,
       misfire, catch_up, grace, jitter, origin, paused, anchor, next_at, wake_at, last_at, queued, started, skipped, note,
       created_at
  FROM holdfast.schedule
 ORDER BY namespace, name;

-- name: schedules_after
SELECT namespace, name, workflow, version, lane, capabilities, input, priority, tags, deadline, rule, zone, overlap, queue_limit,
       misfire, catch_up, grace, jitter, origin, paused, anchor, next_at, wake_at, last_at, queued, started, skipped, note,
       created_at
  FROM holdfast.schedule
 WHERE namespace = :namespace AND name > :after
 ORDER BY name LIMIT :limit;

-- name: schedules_of_model
SELECT name FROM holdfast.schedule WHERE namespace = :namespace AND workflow = :workflow AND origin = :origin ORDER BY name;

-- name: due_schedules
SELECT namespace, name, workflow, version, lane, capabilities, input, priority, tags, deadline, rule, zone, overlap, queue_limit,
       misfire, catch_up, grace, jitter, origin, paused, anchor, next_at, wake_at, last_at, queued, started, skipped, note,
       created_at
  FROM holdfast.schedule
 WHERE wake_at <= :now
 ORDER BY wake_at LIMIT :limit;

-- name: release_schedule
-- A run has ended: ticks that waited for it are due.
UPDATE holdfast.schedule AS schedule
   SET wake_at = :now
 WHERE queued IS NOT NULL AND paused IS NULL
   AND EXISTS (SELECT 1 FROM holdfast.tick AS tick
                WHERE tick.run_id = :run_id AND tick.namespace = schedule.namespace AND tick.schedule = schedule.name);

-- name: insert_tick
INSERT INTO holdfast.tick (run_id, namespace, schedule, at, kind, live, solo)
VALUES (:run_id, :namespace, :schedule, :at, :kind, :live, :solo)
    ON CONFLICT DO NOTHING;

-- name: close_ended_ticks
-- No tick has to wait for a run that has ended.
UPDATE holdfast.tick AS tick SET live = 0
 WHERE namespace = :namespace AND schedule = :schedule AND live = 1
   AND NOT EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = tick.run_id AND run.finished_at IS NULL);

-- name: live_ticks
SELECT run_id FROM holdfast.tick WHERE namespace = :namespace AND schedule = :schedule AND live = 1 ORDER BY run_id;

-- name: live_runs
SELECT run_id FROM holdfast.tick AS tick JOIN holdfast.run AS run ON run.id = tick.run_id
 WHERE namespace = :namespace AND tick.schedule = :schedule AND live = 1 AND finished_at IS NULL
 ORDER BY run_id;

-- name: tick
SELECT namespace, schedule, at, kind FROM holdfast.tick WHERE run_id = :run_id;

-- name: set_schedule_aside
UPDATE holdfast.schedule SET paused = :reason, wake_at = NULL
 WHERE namespace = :namespace AND name = :name AND (paused IS NULL OR wake_at IS NOT NULL);
