-- Laws about subscriptions and webhooks.

-- name: a_dead_letter_belongs_to_a_webhook
SELECT DISTINCT subscription FROM holdfast.dead_letter AS letter
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.subscription AS subscription
                    WHERE subscription.name = letter.subscription AND subscription.kind = 'webhook');

-- name: a_webhook_has_an_address_and_a_secret
SELECT name FROM holdfast.subscription WHERE (kind = 'webhook') <> (url IS NOT NULL AND secret IS NOT NULL);

-- name: what_is_to_be_delivered_again_says_when
SELECT name FROM holdfast.subscription WHERE (attempts > 0) <> (next_at IS NOT NULL);

-- name: at_most_one_place_is_held_for_the_last_number
SELECT run_id FROM holdfast.event WHERE run_id = '' GROUP BY run_id HAVING COUNT(*) > 1;

-- name: nobody_has_read_beyond_the_last_event
SELECT name FROM holdfast.subscription AS subscription WHERE holdfast.is_beyond(subscription);
