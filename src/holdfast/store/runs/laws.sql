-- Laws that SQL can check. Each query returns the ids of the rows that break the law; its name is
-- the law, in words.

-- name: a_claimable_run_is_pending_or_cancelling_and_not_leased
SELECT id FROM holdfast.run
 WHERE rank IS NOT NULL AND (status NOT IN ('pending', 'cancelling') OR session_id IS NOT NULL);

-- name: a_run_has_its_input
SELECT id FROM holdfast.run AS run WHERE COALESCE(LENGTH(holdfast.input_of(run)), 0) = 0;

-- name: a_claimable_run_has_no_waits_and_no_wake_time
SELECT id FROM holdfast.run WHERE rank IS NOT NULL AND (waits IS NOT NULL OR wake_at IS NOT NULL);

-- name: a_pending_run_is_claimable_or_has_a_wake_time
SELECT id FROM holdfast.run WHERE status = 'pending' AND rank IS NULL AND wake_at IS NULL;

-- name: a_cancelling_run_is_leased_or_claimable_or_waiting
SELECT id FROM holdfast.run
 WHERE status = 'cancelling' AND session_id IS NULL AND rank IS NULL AND wake_at IS NULL AND waits IS NULL;

-- name: a_running_run_is_leased
SELECT id FROM holdfast.run WHERE status = 'running' AND session_id IS NULL;

-- name: a_leased_run_is_running_or_waiting_or_cancelling
SELECT id FROM holdfast.run WHERE session_id IS NOT NULL AND status NOT IN ('running', 'waiting', 'cancelling');

-- name: the_session_of_a_leased_run_exists
SELECT id FROM holdfast.run AS run
 WHERE session_id IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM holdfast.session AS session WHERE session.id = run.session_id);

-- name: a_waiting_run_records_its_waits
SELECT id FROM holdfast.run WHERE status = 'waiting' AND waits IS NULL;

-- name: a_run_has_an_end_time_exactly_if_its_status_is_final
SELECT id FROM holdfast.run
 WHERE (status IN ('completed', 'failed', 'cancelled', 'expired', 'skipped')) <> (finished_at IS NOT NULL);

-- name: a_finished_run_is_not_leased_or_claimable_or_waiting
SELECT id FROM holdfast.run
 WHERE finished_at IS NOT NULL AND (session_id IS NOT NULL OR rank IS NOT NULL OR wake_at IS NOT NULL OR waits IS NOT NULL);

-- name: a_completed_run_has_no_error
SELECT id FROM holdfast.run WHERE status = 'completed' AND error IS NOT NULL;

-- name: only_a_completed_run_has_a_result
SELECT id FROM holdfast.run WHERE status <> 'completed' AND result IS NOT NULL;

-- name: a_stuck_run_has_an_error
SELECT id FROM holdfast.run WHERE status = 'stuck' AND error IS NULL;

-- name: only_a_stuck_run_has_a_stuck_cause
SELECT id FROM holdfast.run WHERE status <> 'stuck' AND stuck_cause IS NOT NULL;

-- name: the_generation_of_a_leased_run_is_positive
SELECT id FROM holdfast.run WHERE session_id IS NOT NULL AND generation < 1;

-- name: a_run_has_a_route
SELECT id FROM holdfast.run AS run
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.route AS route WHERE route.id = run.route_id);

-- name: the_history_of_a_run_has_no_gaps
SELECT run_id FROM holdfast.event WHERE run_id <> '' GROUP BY run_id HAVING MIN(seq) <> 1 OR MAX(seq) <> COUNT(*);

-- name: an_event_belongs_to_a_run
-- Or to a stage, until ImportRun copies it to a run.
SELECT DISTINCT run_id FROM holdfast.event AS event
 WHERE run_id <> '' AND NOT EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = event.run_id)
   AND NOT EXISTS (SELECT 1 FROM holdfast.graph_stage AS stage WHERE stage.id = event.run_id);

-- name: a_step_completes_once
SELECT run_id FROM holdfast.event WHERE kind = 'step_completed'
   AND run_id NOT IN (SELECT run_id FROM holdfast.event WHERE kind = 'run_replayed')
 GROUP BY run_id, step HAVING COUNT(*) > 1;

-- name: the_parent_of_a_run_exists
SELECT id FROM holdfast.run AS run
 WHERE parent_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM holdfast.run AS parent WHERE parent.id = run.parent_id);

-- name: a_signal_belongs_to_a_run
SELECT DISTINCT run_id FROM holdfast.signal AS signal
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = signal.run_id);

-- name: a_tag_belongs_to_a_run
SELECT DISTINCT run_id FROM holdfast.tag AS tag
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = tag.run_id);

-- name: a_tag_has_the_time_of_its_run
SELECT DISTINCT tag.run_id FROM holdfast.tag AS tag JOIN holdfast.run AS run ON run.id = tag.run_id
 WHERE tag.created_at <> run.created_at;

-- name: the_open_child_count_of_a_fanout_is_correct
SELECT fanout.run_id FROM holdfast.fanout AS fanout
 WHERE fanout.remaining <> (SELECT COUNT(*) FROM holdfast.run AS run
                             WHERE run.parent_id = fanout.run_id AND run.parent_step = fanout.step AND run.finished_at IS NULL);

-- name: rate_admissions_are_numbered_without_gaps
SELECT lane || ' ' || share AS id
  FROM (SELECT lane, share, number, count, LAG(number) OVER (PARTITION BY lane, share ORDER BY at) AS before
          FROM holdfast.rate_admission) AS admission
 WHERE count < 1 OR number < count OR number - count <> COALESCE(before, number - count);

-- name: the_history_of_a_completed_run_contains_all_its_steps
SELECT event.run_id FROM holdfast.event AS event JOIN holdfast.run AS run ON run.id = event.run_id
 WHERE event.kind = 'run_completed' AND run.status = 'completed'
   AND holdfast.steps_of(event) > (SELECT COUNT(*) FROM holdfast.event AS step
                                    WHERE step.run_id = event.run_id AND step.seq < event.seq
                                      AND step.kind IN ('step_completed', 'step_failed'));

-- name: the_parents_of_runs_form_no_cycle
WITH RECURSIVE below AS (
    SELECT id FROM holdfast.run
     WHERE parent_id IS NULL AND id IN (SELECT parent_id FROM holdfast.run WHERE parent_id IS NOT NULL)
     UNION
    SELECT run.id FROM holdfast.run AS run JOIN below ON run.parent_id = below.id
)
SELECT id FROM holdfast.run AS run
 WHERE parent_id IS NOT NULL AND id NOT IN (SELECT id FROM below)
   AND EXISTS (SELECT 1 FROM holdfast.run AS parent WHERE parent.id = run.parent_id);

-- name: a_child_has_the_same_root_as_its_parent
SELECT run.id FROM holdfast.run AS run JOIN holdfast.run AS parent ON parent.id = run.parent_id
 WHERE run.root_id <> COALESCE(parent.root_id, parent.id);

-- name: the_children_of_a_step_have_different_indexes
SELECT parent_id FROM holdfast.run
 WHERE parent_id IS NOT NULL AND parent_index IS NOT NULL
 GROUP BY parent_id, parent_step, parent_index HAVING COUNT(*) > 1;

-- name: a_map_that_has_not_ended_has_a_fanout
SELECT run.id FROM holdfast.run AS run JOIN holdfast.event AS event ON event.run_id = run.id
 WHERE run.finished_at IS NULL AND event.kind = 'map_started'
   AND NOT EXISTS (SELECT 1 FROM holdfast.fanout AS fanout WHERE fanout.run_id = run.id AND fanout.step = event.step)
   AND NOT EXISTS (SELECT 1 FROM holdfast.event AS later
                    WHERE later.run_id = run.id AND (later.kind = 'run_replayed' OR (later.kind = 'map_ended' AND later.step = event.step)));

-- name: a_pending_run_has_no_waits
SELECT id FROM holdfast.run WHERE status = 'pending' AND waits IS NOT NULL;

-- name: the_role_of_an_event_is_known
-- A compensation may name the step that it undoes, so that the column is not one of a few words.
SELECT run_id AS id FROM holdfast.event
 WHERE role NOT IN ('compensation', 'key_missing', 'repeated', 'superseded') AND role NOT LIKE 'compensation of _%';
