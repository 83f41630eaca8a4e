-- Subscriptions to the events of all runs: the queries that both dialects accept.

-- name: append_from_outside
-- Like `append`, for a writer that is not the holder of the run.
INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, data, error, started_at, at, role)
VALUES (:run_id, :seq, :kind, :step, :attempt, :data, :error, :started_at, :at, :role);

-- name: worker_of
SELECT worker, serves FROM holdfast.session WHERE id = :session_id;

-- name: copy_event
-- Copies an event with its number: the order in which subscribers read events stays the same.
INSERT INTO holdfast.event (id, run_id, seq, kind, step, attempt, data, error, started_at, at, role)
VALUES (:id, :run_id, :seq, :kind, :step, :attempt, :data, :error, :started_at, :at, :role);

-- name: empty_numbers
DELETE FROM holdfast.event WHERE run_id = '';

-- name: continue_numbers
-- After a copy. Nothing to do in SQLite: new numbers are above the copied ones by themselves.
SELECT 1 AS settled;

-- name: first_place
-- The cursor before all events.
SELECT 1 AS tx, 0 AS id;

-- name: last_place
SELECT 1 AS tx, COALESCE(MAX(id), 0) AS id FROM holdfast.event;

-- name: insert_subscription
INSERT INTO holdfast.subscription (name, kind, which, source, after_tx, after_id, created_at, url, secret, attempt_limit)
VALUES (:name, :kind, :which, :source, :after_tx, :after_id, :created_at, :url, :secret, :attempt_limit)
    ON CONFLICT DO NOTHING;

-- name: subscription
SELECT name, kind, which, after_tx, after_id, created_at, moved_at, url, secret, attempts, attempt_limit, next_at, error,
       session_id
  FROM holdfast.subscription
 WHERE name = :name;

-- name: lock_subscription
SELECT name, kind, which, after_tx, after_id, created_at, moved_at, url, secret, attempts, attempt_limit, next_at, error,
       session_id
  FROM holdfast.subscription
 WHERE name = :name;

-- name: subscriptions
SELECT name, kind, which, after_tx, after_id, created_at, moved_at, url, secret, attempts, attempt_limit, next_at, error,
       session_id
  FROM holdfast.subscription
 ORDER BY name;

-- name: change_webhook
UPDATE holdfast.subscription
   SET which = :which, url = :url, secret = :secret, attempt_limit = :attempt_limit, attempts = :attempts, next_at = :next_at,
       error = :error
 WHERE name = :name;

-- name: move_cursor
-- Only forward: of two readers under one name, the slower one must not move the cursor back.
UPDATE holdfast.subscription
   SET after_tx = :after_tx, after_id = :after_id, moved_at = :now
 WHERE name = :name AND (after_tx < :after_tx OR (after_tx = :after_tx AND after_id < :after_id));

-- name: reseal_webhook
UPDATE holdfast.subscription SET secret = :new WHERE name = :name AND secret = :old;

-- name: delete_subscription
DELETE FROM holdfast.subscription WHERE name = :name;

-- name: delete_letters
DELETE FROM holdfast.dead_letter WHERE subscription = :name;

-- name: claim_webhooks
-- The webhooks without a session, or whose session has ended.
UPDATE holdfast.subscription AS subscription
   SET session_id = :session_id
 WHERE kind = 'webhook'
   AND (CAST(:name AS text) IS NULL OR name = :name)
   AND EXISTS (SELECT 1 FROM holdfast.session WHERE id = :session_id)
   AND (session_id IS NULL
        OR NOT EXISTS (SELECT 1 FROM holdfast.session AS session WHERE session.id = subscription.session_id));

-- name: free_webhooks
UPDATE holdfast.subscription SET session_id = NULL WHERE session_id = :session_id;

-- name: webhooks_of
SELECT name FROM holdfast.subscription AS subscription
 WHERE session_id = :session_id AND EXISTS (SELECT 1 FROM holdfast.session WHERE id = :session_id)
 ORDER BY name;

-- name: record_delivery
UPDATE holdfast.subscription
   SET after_tx = :after_tx, after_id = :after_id, attempts = :attempts, next_at = :next_at, error = :error, moved_at = :now
 WHERE name = :name AND session_id = :session_id;

-- name: insert_letter
INSERT INTO holdfast.dead_letter AS letter (subscription, run_id, seq, body, attempts, error, at, again)
VALUES (:subscription, :run_id, :seq, :body, :attempts, :error, :at, 0)
    ON CONFLICT (subscription, run_id, seq) DO UPDATE
   SET attempts = letter.attempts + excluded.attempts, error = excluded.error, at = excluded.at, again = 0;

-- name: delete_letter
DELETE FROM holdfast.dead_letter WHERE subscription = :subscription AND run_id = :run_id AND seq = :seq;

-- name: replay_letters
UPDATE holdfast.dead_letter SET again = 1 WHERE subscription = :name;

-- name: count_letters
SELECT subscription, COUNT(*) AS letters
  FROM holdfast.dead_letter
 GROUP BY subscription;

-- name: letters
SELECT subscription, run_id, seq, body, attempts, error, at, again
  FROM holdfast.dead_letter
 WHERE subscription = :name AND again >= :again
 ORDER BY at, run_id, seq
 LIMIT :limit;
