-- Laws about the output of runs.

-- name: a_stream_belongs_to_a_run
SELECT DISTINCT run_id FROM holdfast.stream AS stream
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = stream.run_id);

-- name: a_frame_belongs_to_a_stream
SELECT DISTINCT run_id FROM holdfast.frame AS frame
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.stream AS stream WHERE stream.run_id = frame.run_id AND stream.number = frame.stream);

-- name: the_stream_and_frame_counts_of_an_output_are_correct
SELECT run_id FROM holdfast.output AS output
 WHERE streams <> (SELECT COUNT(*) FROM holdfast.stream AS stream WHERE stream.run_id = output.run_id)
    OR last_seq <> (SELECT COALESCE(SUM(frames), 0) FROM holdfast.stream AS stream WHERE stream.run_id = output.run_id)
    OR last_seq < (SELECT COALESCE(MAX(seq), 0) FROM holdfast.frame AS frame WHERE frame.run_id = output.run_id);

-- name: a_stream_belongs_to_an_output
SELECT DISTINCT run_id FROM holdfast.stream AS stream
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.output AS output WHERE output.run_id = stream.run_id);

-- name: the_kept_frame_counts_of_a_stream_are_correct
SELECT run_id FROM holdfast.stream AS stream
 WHERE kept_durable <> (SELECT COUNT(*) FROM holdfast.frame AS frame
                         WHERE frame.run_id = stream.run_id AND frame.stream = stream.number AND frame.mode = 'durable')
    OR kept_summary <> (SELECT COUNT(*) FROM holdfast.frame AS frame
                         WHERE frame.run_id = stream.run_id AND frame.stream = stream.number AND frame.mode = 'summary')
    OR kept_best_effort <> (SELECT COUNT(*) FROM holdfast.frame AS frame
                             WHERE frame.run_id = stream.run_id AND frame.stream = stream.number AND frame.mode = 'best_effort');

-- name: a_stream_has_a_reason_exactly_if_it_is_closed
SELECT run_id FROM holdfast.stream WHERE (closed_at IS NULL) <> (reason IS NULL);

-- name: an_open_stream_of_a_step_belongs_to_the_current_lease_of_its_run
SELECT stream.run_id FROM holdfast.stream AS stream JOIN holdfast.run AS run ON run.id = stream.run_id
 WHERE closed_at IS NULL AND stream.generation > 0 AND stream.step <> ''
   AND (run.session_id IS NULL OR run.generation <> stream.generation);

-- name: a_leased_task_has_at_most_one_open_stream_of_a_lease_that_it_had
-- It stays open while the task is suspended or delayed: its next holder continues the attempt.
SELECT stream.run_id FROM holdfast.stream AS stream JOIN holdfast.run AS run ON run.id = stream.run_id
 WHERE closed_at IS NULL AND stream.generation > 0 AND stream.step = ''
 GROUP BY stream.run_id, run.generation
HAVING COUNT(*) > 1 OR MAX(stream.generation) > run.generation;

-- name: a_finished_run_has_no_open_stream_of_a_step
SELECT stream.run_id FROM holdfast.stream AS stream JOIN holdfast.run AS run ON run.id = stream.run_id
 WHERE closed_at IS NULL AND stream.generation > 0 AND run.finished_at IS NOT NULL;
