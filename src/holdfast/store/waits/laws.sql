-- Laws about waits and signals.

-- name: a_wait_belongs_to_a_run
SELECT DISTINCT run_id FROM holdfast.wait AS wait
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = wait.run_id);

-- name: a_wait_has_a_closing_cause_exactly_if_it_is_closed
SELECT run_id FROM holdfast.wait WHERE (closed_at IS NULL) <> (closed_by IS NULL);

-- name: a_wait_has_a_signing_key_exactly_if_it_has_an_id
SELECT run_id FROM holdfast.wait WHERE (id IS NULL) <> (kid IS NULL);

-- name: an_escalated_wait_has_no_id_and_no_time_limit
SELECT run_id FROM holdfast.wait WHERE escalated_at IS NOT NULL AND (id IS NOT NULL OR until IS NOT NULL);

-- name: a_signal_to_a_wait_belongs_to_the_run_of_that_wait
SELECT signal.run_id FROM holdfast.signal AS signal JOIN holdfast.wait AS wait ON wait.id = signal.wait_id
 WHERE signal.run_id <> wait.run_id;

-- name: no_two_signals_of_a_run_have_the_same_number
SELECT run_id FROM holdfast.signal WHERE number > 0 GROUP BY run_id, number HAVING COUNT(*) > 1;

-- name: the_wait_of_a_signal_exists
SELECT DISTINCT run_id FROM holdfast.signal AS signal
 WHERE wait_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM holdfast.wait AS wait WHERE wait.id = signal.wait_id);

-- name: a_wait_in_the_history_of_a_live_run_exists
SELECT DISTINCT run.id FROM holdfast.run AS run JOIN holdfast.event AS event ON event.run_id = run.id
 WHERE run.finished_at IS NULL AND event.kind IN ('wait_created', 'wait_opened')
   AND NOT EXISTS (SELECT 1 FROM holdfast.wait AS wait WHERE wait.run_id = run.id AND wait.step = event.step);
