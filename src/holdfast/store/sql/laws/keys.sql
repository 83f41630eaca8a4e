-- Laws about keys.

-- name: there_is_one_current_key_if_there_is_any
SELECT MIN(kid) AS kid FROM holdfast.key HAVING COUNT(*) > 0 AND SUM(CASE WHEN expires_at IS NULL THEN 1 ELSE 0 END) <> 1;
