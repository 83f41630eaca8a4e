-- Tokens at rest.

-- name: save_token
INSERT INTO holdfast.resting_token (run_id, token, element, kind, scope, status, mode, attempt, waits_for, until, since, version)
VALUES (:run_id, :token, :element, :kind, :scope, :status, :mode, :attempt, :waits_for, :until, :since, :version)
    ON CONFLICT (run_id, token) DO UPDATE
   SET element = excluded.element, kind = excluded.kind, scope = excluded.scope, status = excluded.status,
       mode = excluded.mode, attempt = excluded.attempt, waits_for = excluded.waits_for, until = excluded.until,
       since = excluded.since, version = excluded.version;

-- name: remove_token
DELETE FROM holdfast.resting_token WHERE run_id = :run_id AND token = :token;

-- name: live_model_runs
-- The runs of stored definitions that have not ended. A stuck run says itself why it cannot go on.
SELECT DISTINCT run.id
  FROM holdfast.run AS run
  JOIN holdfast.route AS route ON route.id = run.route_id
  JOIN holdfast.definition AS definition
    ON definition.namespace = route.namespace AND definition.name = route.workflow
   AND definition.version = route.version
 WHERE run.finished_at IS NULL AND run.status <> 'stuck' AND run.id > :after
 ORDER BY run.id LIMIT :limit;

-- name: tokens_of_run
SELECT token, element, kind, scope, status, mode, attempt, waits_for, until, since, version
  FROM holdfast.resting_token
 WHERE run_id = :run_id
 ORDER BY since, token;

-- name: tokens_by_element
-- The tokens of all live runs of one version of a model.
SELECT token.element, COUNT(*) AS tokens,
       CAST(SUM(CASE WHEN token.waits_for = 'incident' THEN 1 ELSE 0 END) AS BIGINT) AS incidents
  FROM holdfast.resting_token AS token
  JOIN holdfast.run AS run ON run.id = token.run_id
  JOIN holdfast.route AS route ON route.id = run.route_id
 WHERE route.workflow = :workflow AND route.version = :version
   AND (CAST(:namespace AS text) IS NULL OR route.namespace = :namespace)
 GROUP BY token.element;
