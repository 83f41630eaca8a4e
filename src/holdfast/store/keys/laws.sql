-- Laws about signing keys.

-- name: exactly_one_signing_key_is_current_if_there_are_keys
SELECT MIN(kid) AS kid FROM holdfast.key HAVING COUNT(*) > 0 AND SUM(CASE WHEN expires_at IS NULL THEN 1 ELSE 0 END) <> 1;

-- name: a_current_signing_key_exists_while_waits_with_tokens_are_open
-- A key that expired long ago may be deleted, but then there is another current key.
SELECT DISTINCT wait.run_id FROM holdfast.wait AS wait JOIN holdfast.run AS run ON run.id = wait.run_id
 WHERE wait.id IS NOT NULL AND wait.closed_at IS NULL AND run.finished_at IS NULL
   AND NOT EXISTS (SELECT 1 FROM holdfast.key AS key WHERE key.expires_at IS NULL);
