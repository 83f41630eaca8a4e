-- Messages: what waits for them, what is kept, what they start.

-- name: insert_message_subscription
INSERT INTO holdfast.message_subscription (run_id, step, namespace, kind, name, key, element, since)
VALUES (:run_id, :step, :namespace, :kind, :name, :key, :element, :since)
    ON CONFLICT DO NOTHING;

-- name: close_message_subscription
DELETE FROM holdfast.message_subscription WHERE run_id = :run_id AND step = :step;

-- name: rename_subscription
-- The run has moved to a version in which the element has another name.
UPDATE holdfast.message_subscription SET element = :element WHERE run_id = :run_id AND step = :step;

-- name: message_receivers
-- A receiver of the key comes before one without a key; then the one that has waited longest.
SELECT run_id, step, element
  FROM holdfast.message_subscription
 WHERE namespace = :namespace AND kind = 'message' AND name = :name
   AND (key IS NULL OR key = CAST(:key AS TEXT))
   AND (CAST(:run_id AS TEXT) IS NULL OR run_id = :run_id)
   AND (CAST(:element AS TEXT) IS NULL OR element = :element)
 ORDER BY (key IS NULL), since, run_id, step LIMIT 20;

-- name: broadcast_receivers
SELECT run_id, step, element
  FROM holdfast.message_subscription
 WHERE namespace = :namespace AND kind = 'signal' AND name = :name AND since <= :at
   AND (run_id, step) > (:after_run, :after_step)
 ORDER BY run_id, step LIMIT :limit;

-- name: insert_delivery
-- Messages are not counted among the signals that a run may have at most.
INSERT INTO holdfast.signal (run_id, name, payload, at, source, step, effect, number)
VALUES (:run_id, :name, :payload, :at, :source, :step, :effect,
        COALESCE((SELECT number FROM holdfast.signal WHERE run_id = :run_id ORDER BY number DESC LIMIT 1), 0) + 1);

-- name: message_subscription
SELECT run_id, step FROM holdfast.message_subscription WHERE run_id = :run_id AND step = :step;

-- name: message_subscriptions
SELECT run_id, step, namespace, kind, name, key, element, since
  FROM holdfast.message_subscription
 WHERE run_id = :run_id
 ORDER BY since, step;

-- name: insert_message
INSERT INTO holdfast.message (namespace, id, name, key, payload, at, until, effect, run_id, element)
VALUES (:namespace, :id, :name, :key, :payload, :at, :until, :effect, :run_id, :element)
    ON CONFLICT (namespace, name, id) DO UPDATE
   SET effect = excluded.effect, until = excluded.until, run_id = excluded.run_id, element = excluded.element;

-- name: message_by_id
SELECT id, effect, run_id, element FROM holdfast.message WHERE namespace = :namespace AND name = :name AND id = :id;

-- name: kept_message
-- The oldest messages that a new receiver can have: it gets the first one that is not damaged.
SELECT id, key, payload, at, until
  FROM holdfast.message
 WHERE namespace = :namespace AND name = :name AND effect = 'kept' AND until > :now
   AND (CAST(:key AS TEXT) IS NULL OR key = :key)
 ORDER BY at, id LIMIT 5;

-- name: take_message
UPDATE holdfast.message SET effect = 'received', run_id = :run_id, element = :element, until = :until
 WHERE namespace = :namespace AND name = :name AND id = :id;

-- name: kept_by_id
SELECT until FROM holdfast.message
 WHERE namespace = :namespace AND name = :name AND id = :id AND effect = 'kept' AND until > :now;

-- name: start_message
UPDATE holdfast.message SET effect = :effect, run_id = :run_id, element = :element, until = :until
 WHERE namespace = :namespace AND name = :name AND id = :id;

-- name: startable_messages
-- Kept messages that a start event of the version that new runs use can receive, while no run is live
-- that a message of the same key has started. The start events come first: they are few, and the
-- messages that wait for a run may be many. While the lane of the new runs drains there are none:
-- every check would try all of them without effect.
SELECT message.namespace, message.id, message.name, message.key, message.payload
  FROM holdfast.start_subscription AS start CROSS JOIN holdfast.message AS message
 WHERE start.kind = 'message' AND message.namespace = start.namespace AND message.name = start.name
   AND message.effect = 'kept' AND message.until > :now
   AND NOT EXISTS (SELECT 1 FROM holdfast.lane AS lane WHERE lane.name = :lane AND lane.draining = 1)
   AND EXISTS (SELECT 1 FROM holdfast.definition AS definition
                WHERE definition.namespace = start.namespace AND definition.name = start.process
                  AND definition.version = start.version AND definition.state = 'active'
                  AND NOT EXISTS (SELECT 1 FROM holdfast.definition AS later
                                   WHERE later.namespace = definition.namespace AND later.kind = definition.kind
                                     AND later.name = definition.name AND later.state = 'active'
                                     AND (later.used_at, LENGTH(later.version), later.version)
                                         > (definition.used_at, LENGTH(definition.version), definition.version)))
   AND (message.key IS NULL
        OR NOT EXISTS (SELECT 1 FROM holdfast.message AS started JOIN holdfast.run AS run ON run.id = started.run_id
                        WHERE started.namespace = message.namespace AND started.name = message.name
                          AND started.key = message.key AND started.effect = 'started' AND run.finished_at IS NULL))
 ORDER BY message.at, message.id LIMIT :limit;

-- name: messages_to_seal
SELECT namespace, name, id, key, payload FROM holdfast.message
 WHERE (namespace, name, id) > (:after_namespace, :after_name, :after_id) ORDER BY namespace, name, id LIMIT :limit;

-- name: reseal_message
UPDATE holdfast.message SET payload = :new
 WHERE namespace = :namespace AND name = :name AND id = :id AND payload = :old;

-- name: running_starts
-- The live runs that a message of this name and key has started.
SELECT message.run_id
  FROM holdfast.message AS message JOIN holdfast.run AS run ON run.id = message.run_id
 WHERE message.namespace = :namespace AND message.name = :name AND message.key = :key
   AND message.effect = 'started' AND run.finished_at IS NULL
 LIMIT 1;

-- name: delete_old_messages
-- The row of a message that started a run lives as long as the run: no other message of its key
-- starts another one meanwhile.
DELETE FROM holdfast.message AS message
 WHERE message.until < :now
   AND (message.effect <> 'started' OR message.run_id IS NULL
        OR NOT EXISTS (SELECT 1 FROM holdfast.run AS run
                        WHERE run.id = message.run_id AND run.finished_at IS NULL));

-- name: insert_start
INSERT INTO holdfast.start_subscription (namespace, process, version, kind, name, element)
VALUES (:namespace, :process, :version, :kind, :name, :element)
    ON CONFLICT DO NOTHING;

-- name: starts_of_name
-- Only of the version that new runs use.
SELECT start.namespace, start.process, start.version, start.kind, start.name, start.element
  FROM holdfast.start_subscription AS start
  JOIN holdfast.definition AS definition
    ON definition.namespace = start.namespace AND definition.name = start.process
   AND definition.version = start.version AND definition.state = 'active'
 WHERE start.namespace = :namespace AND start.kind = :kind AND start.name = :name
   AND NOT EXISTS (SELECT 1 FROM holdfast.definition AS later
                    WHERE later.namespace = definition.namespace AND later.kind = definition.kind
                      AND later.name = definition.name AND later.state = 'active'
                      AND (later.used_at, LENGTH(later.version), later.version)
                          > (definition.used_at, LENGTH(definition.version), definition.version))
 ORDER BY start.process, start.element;

-- name: signal_of_step
-- Deliveries that the run has not taken.
SELECT id, payload, source FROM holdfast.signal
 WHERE run_id = :run_id AND step = :step AND name = 'message' AND taken = 0
 ORDER BY id;

-- name: answer_signal
UPDATE holdfast.signal SET effect = :answer WHERE run_id = :run_id AND number = :number;

-- name: signal_answer
SELECT effect, taken FROM holdfast.signal WHERE run_id = :run_id AND number = :number;

-- name: external_tasks
-- Tasks below the runs of definitions that are stored.
SELECT run.id, run.parent_id AS run_id, run.parent_step AS step, route.workflow AS topic,
       above.workflow AS process, run.created_at
  FROM holdfast.task AS task
  JOIN holdfast.run AS run ON run.id = task.run_id
  JOIN holdfast.route AS route ON route.id = run.route_id
  JOIN holdfast.run AS parent ON parent.id = run.parent_id
  JOIN holdfast.route AS above ON above.id = parent.route_id
 WHERE run.finished_at IS NULL AND run.id > :after AND (CAST(:run_id AS TEXT) IS NULL OR run.parent_id = :run_id)
   AND (CAST(:namespace AS TEXT) IS NULL OR route.namespace = :namespace)
   AND EXISTS (SELECT 1 FROM holdfast.definition AS definition
                WHERE definition.namespace = above.namespace AND definition.name = above.workflow
                  AND definition.version = above.version)
 ORDER BY run.id LIMIT :limit;
