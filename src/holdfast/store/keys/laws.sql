-- Laws about signing keys.

-- name: there_is_one_current_key_if_there_is_any
SELECT MIN(kid) AS kid FROM holdfast.key HAVING COUNT(*) > 0 AND SUM(CASE WHEN expires_at IS NULL THEN 1 ELSE 0 END) <> 1;

-- name: there_is_a_key_for_the_waits_that_were_handed_out
-- A key that expired long ago may be deleted, but then there is another current key.
SELECT DISTINCT wait.run_id FROM holdfast.wait AS wait JOIN holdfast.run AS run ON run.id = wait.run_id
 WHERE wait.id IS NOT NULL AND wait.closed_at IS NULL AND run.finished_at IS NULL
   AND NOT EXISTS (SELECT 1 FROM holdfast.key AS key WHERE key.expires_at IS NULL);
