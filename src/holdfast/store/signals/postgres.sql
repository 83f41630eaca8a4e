-- Deliver a signal to a run with one statement, which commits by itself.

-- name: store_signal
-- `signal_run` for a run that is not parked on a condition, or only on a name: then only the name
-- decides. It writes nothing and returns no row if the run has ended or does not exist, waits for a
-- condition, has a wait that is past its time, or has reached its limit of signals, or if the key
-- was used before; nor if another transaction changed the run while this one waited for its lock,
-- because the number of the last signal is then not the one that this statement sees. The holder of
-- the run in another process is notified by name and gets a row of `run_notification`; if the run is claimable
-- now, all workers are notified. A holder in this process is notified directly.
WITH seen AS MATERIALIZED (
    SELECT id, revision FROM holdfast.run WHERE id = :run_id
), found AS MATERIALIZED (
    SELECT run.id, run.generation, run.revision, run.status, run.session_id, run.priority, run.waits,
           CASE WHEN run.waits IS NOT NULL THEN CAST(CONVERT_FROM(run.waits, 'UTF8') AS JSONB) END AS waiting
      FROM holdfast.run AS run JOIN seen ON seen.id = run.id AND seen.revision = run.revision
     WHERE run.finished_at IS NULL AND (run.wake_at IS NULL OR run.wake_at >= :at)
       FOR NO KEY UPDATE OF run
), judged AS MATERIALIZED (
    SELECT id, generation, revision, status, session_id, priority, waits, COALESCE(met, FALSE) AS met,
           session_id IS NOT NULL AND (waits IS NULL OR met) AS notifies,
           COALESCE(session_id IS NULL AND met AND (status IN ('waiting', 'blocked') OR status = 'cancelling'), FALSE) AS wakes
      FROM (SELECT found.*,
                   waiting @> JSONB_BUILD_ARRAY(JSONB_BUILD_OBJECT('kind', 'signal', 'name', CAST(:name AS TEXT)))
                   OR waiting @> JSONB_BUILD_ARRAY(JSONB_BUILD_OBJECT('kind', 'wait', 'plain', CAST(:name AS TEXT))) AS met
              FROM found
             WHERE waiting IS NULL OR NOT waiting @> '[{"kind": "wait"}]'
                OR (JSONB_ARRAY_LENGTH(waiting) = 1 AND JSONB_EXISTS(waiting -> 0, 'plain'))) AS plain
), written AS (
    INSERT INTO holdfast.signal (run_id, name, payload, key, at, source, effect, number)
    SELECT judged.id, :name, :payload, :key, :at, :source, CASE WHEN judged.met THEN :satisfied ELSE :kept END, last.number + 1
      FROM judged, (SELECT COALESCE((SELECT number FROM holdfast.signal WHERE run_id = :run_id ORDER BY number DESC LIMIT 1), 0)
                           AS number) AS last
     WHERE last.number < :limit
        ON CONFLICT DO NOTHING
    RETURNING id, number, effect
), touched AS (
    UPDATE holdfast.run AS run
       SET revision = run.revision + 1,
           status = CASE WHEN wakes THEN (CAST(:becomes AS TEXT[]))[ARRAY_POSITION(CAST(:was AS TEXT[]), CAST(judged.status AS TEXT))]
                         ELSE run.status END,
           rank = CASE WHEN wakes THEN :at - run.priority * :step ELSE run.rank END,
           wake_at = CASE WHEN wakes THEN NULL ELSE run.wake_at END,
           waits = CASE WHEN wakes THEN NULL ELSE run.waits END
      FROM judged, written
     WHERE run.id = :run_id
), notified AS (
    INSERT INTO holdfast.run_notification (session_id, run_id)
    SELECT session_id, judged.id FROM judged, written WHERE notifies AND session_id <> :mine
)
SELECT written.id, number, effect, generation, revision + 1 AS revision, session_id, notifies, wakes,
       CASE WHEN notifies AND session_id <> :mine
            THEN PG_NOTIFY(:channel, :teller || CASE WHEN OCTET_LENGTH(judged.id) < 1000 THEN ' ' || session_id || ' ' || judged.id
                                                     ELSE '' END)
            WHEN wakes AND CAST(:tells AS BIGINT) = 1 THEN PG_NOTIFY(:channel, :teller) END AS told
  FROM written, judged;

-- name: stored_signal
-- After a statement whose answer was lost: whether the signal was stored.
SELECT number, effect
  FROM holdfast.signal
 WHERE run_id = :run_id AND at = :at AND name = :name AND payload = :payload
   AND key IS NOT DISTINCT FROM CAST(:key AS TEXT) AND source IS NOT DISTINCT FROM CAST(:source AS TEXT)
 ORDER BY id DESC LIMIT 1;

-- name: notify_channel
-- Notifies other processes that something was committed.
SELECT pg_notify(CAST(:channel AS TEXT), CAST(:name AS TEXT));
