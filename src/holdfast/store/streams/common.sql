-- The output of runs: the queries that both dialects accept.

-- name: stream_by_attempt
SELECT number FROM holdfast.stream
 WHERE run_id = :run_id AND step = :step AND attempt = :attempt AND generation = :generation;

-- name: summary_of_stream
SELECT summary FROM holdfast.stream WHERE run_id = :run_id AND number = :number;

-- name: frame_version
SELECT version FROM holdfast.frame WHERE run_id = :run_id AND seq = :seq;

-- name: save_output
INSERT INTO holdfast.output AS output (run_id, last_seq, streams, percent, message, progress_at)
VALUES (:run_id, :last_seq, :streams, :percent, :message, :progress_at)
    ON CONFLICT (run_id) DO UPDATE
   SET last_seq = excluded.last_seq, streams = excluded.streams, percent = COALESCE(excluded.percent, output.percent),
       message = COALESCE(excluded.message, output.message), progress_at = COALESCE(excluded.progress_at, output.progress_at);

-- name: insert_stream
-- It supersedes the stream of an earlier attempt at the same step.
INSERT INTO holdfast.stream (run_id, number, step, attempt, generation, supersedes, frames, said, kept_durable, kept_summary,
                             kept_best_effort, first_seq, summary, version, opened_at, written_at, closed_at, reason)
VALUES (:run_id, :number, :step, :attempt, :generation,
        (SELECT MAX(number) FROM holdfast.stream WHERE run_id = :run_id AND step = :step),
        :frames, :said, :durable, :patches, :best_effort, :first_seq, :summary, :version, :now, :now, :closed_at, :reason);

-- name: save_stream
UPDATE holdfast.stream
   SET frames = :frames, said = :said, kept_durable = :durable, kept_summary = :patches, kept_best_effort = :best_effort,
       summary = COALESCE(:summary, summary), version = :version, written_at = :now, closed_at = :closed_at, reason = :reason
 WHERE run_id = :run_id AND number = :number;

-- name: insert_frame
INSERT INTO holdfast.frame (run_id, seq, stream, kind, mode, name, data, nulls, version, at)
VALUES (:run_id, :seq, :stream, :kind, :mode, :name, :data, :nulls, :version, :at);

-- name: trim_durable
-- Deletes the oldest frames of a stream; `first_seq` is a lower bound for their numbers.
DELETE FROM holdfast.frame
 WHERE run_id = :run_id
   AND seq IN (SELECT seq FROM holdfast.frame
                WHERE run_id = :run_id AND seq >= :first_seq AND stream = :stream AND mode = 'durable'
                ORDER BY seq LIMIT :excess);

-- name: trim_passing
DELETE FROM holdfast.frame
 WHERE run_id = :run_id
   AND seq IN (SELECT seq FROM holdfast.frame
                WHERE run_id = :run_id AND stream = :stream AND mode = :mode AND mode <> 'durable'
                ORDER BY seq LIMIT :excess);

-- name: move_first_frame
UPDATE holdfast.stream
   SET first_seq = COALESCE((SELECT MIN(seq) FROM holdfast.frame AS frame
                              WHERE frame.run_id = :run_id AND frame.seq >= :first_seq AND frame.stream = :number), first_seq)
 WHERE run_id = :run_id AND number = :number;

-- name: close_streams
UPDATE holdfast.stream SET closed_at = :now, reason = :reason WHERE run_id = :run_id AND closed_at IS NULL AND generation >= :least;

-- name: close_streams_of_session
-- Only the streams of steps: the code of a workflow, and with it its own stream, continues in
-- another session.
UPDATE holdfast.stream SET closed_at = :now, reason = :reason
 WHERE closed_at IS NULL AND generation > 0
   AND run_id IN (SELECT id FROM holdfast.run WHERE session_id = :session_id);

-- name: frames
SELECT frame.seq, frame.stream, frame.kind, frame.mode, frame.name, frame.data, frame.nulls, frame.version, frame.at
  FROM holdfast.frame AS frame
 WHERE frame.run_id = :run_id AND frame.seq > :after AND frame.seq <= :until
   AND (:best_effort = 1 OR frame.mode <> 'best_effort')
 ORDER BY frame.seq
 LIMIT :limit;

-- name: frames_of_streams
SELECT frame.seq, frame.stream, frame.kind, frame.mode, frame.name, frame.data, frame.nulls, frame.version, frame.at
  FROM holdfast.frame AS frame
 WHERE frame.run_id = :run_id AND frame.seq > :after AND frame.seq <= :until
   AND (:best_effort = 1 OR frame.mode <> 'best_effort')
   AND frame.stream IN (SELECT number FROM holdfast.stream AS stream
                         WHERE stream.run_id = :run_id AND (CAST(:step AS TEXT) IS NULL OR stream.step = :step)
                           AND (CAST(:attempt AS BIGINT) IS NULL OR stream.attempt = :attempt))
 ORDER BY frame.seq
 LIMIT :limit;

-- name: streams
SELECT run_id, number, step, attempt, generation, supersedes, frames, said, kept_durable, kept_summary, kept_best_effort, summary,
       version, opened_at, written_at, closed_at, reason
  FROM holdfast.stream
 WHERE run_id = :run_id
 ORDER BY number;

-- name: progress
SELECT percent, message, progress_at FROM holdfast.output WHERE run_id = :run_id AND progress_at IS NOT NULL;
