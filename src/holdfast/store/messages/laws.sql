-- Laws about messages.

-- name: a_message_subscription_belongs_to_a_run_that_has_not_ended
SELECT DISTINCT run_id FROM holdfast.message_subscription AS subscription
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = subscription.run_id AND run.finished_at IS NULL);

-- name: a_message_that_was_received_names_its_run
SELECT id FROM holdfast.message WHERE (effect = 'kept') <> (run_id IS NULL);

-- name: no_message_is_kept_while_a_receiver_of_its_key_waits
SELECT message.id FROM holdfast.message AS message JOIN holdfast.message_subscription AS subscription
    ON subscription.namespace = message.namespace AND subscription.name = message.name AND subscription.kind = 'message'
   AND (subscription.key IS NULL OR subscription.key = message.key)
 WHERE message.effect = 'kept' AND message.until > subscription.since;
