-- Laws about subscriptions and webhooks.

-- name: a_dead_letter_belongs_to_a_webhook
SELECT DISTINCT subscription FROM holdfast.dead_letter AS letter
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.subscription AS subscription
                    WHERE subscription.name = letter.subscription AND subscription.kind = 'webhook');

-- name: a_webhook_and_no_other_subscription_has_a_url_and_a_secret
SELECT name FROM holdfast.subscription WHERE (kind = 'webhook') <> (url IS NOT NULL AND secret IS NOT NULL);

-- name: a_subscription_has_a_retry_time_exactly_if_attempts_have_failed
SELECT name FROM holdfast.subscription WHERE (attempts > 0) <> (next_at IS NOT NULL);

-- name: at_most_one_event_row_is_a_placeholder
SELECT run_id FROM holdfast.event WHERE run_id = '' GROUP BY run_id HAVING COUNT(*) > 1;

-- name: the_position_of_a_subscription_is_not_beyond_the_last_event
SELECT name FROM holdfast.subscription AS subscription WHERE source = 'runs' AND holdfast.is_beyond(subscription);
