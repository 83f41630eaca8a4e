-- Stored definitions. `used_at` is when a start last named a frozen one, or when a deployed one was
-- last deployed or activated: new runs use the last of the active versions.

-- name: freeze_definition
-- With the first run that keeps it; a later start notes that it is in use.
INSERT INTO holdfast.definition AS definition (namespace, kind, name, version, digest, state, deployed_at, used_at)
VALUES (:namespace, :kind, :name, :version, :digest, 'frozen', :deployed_at, :used_at)
    ON CONFLICT (namespace, name, version, kind) DO UPDATE
   SET used_at = CASE definition.state WHEN 'frozen' THEN excluded.used_at ELSE definition.used_at END;

-- name: insert_definition
INSERT INTO holdfast.definition (namespace, kind, name, version, digest, state, deployed_at, deployed_by, used_at)
VALUES (:namespace, :kind, :name, :version, :digest, :state, :deployed_at, :deployed_by, :used_at)
    ON CONFLICT DO NOTHING;

-- name: insert_definition_content
INSERT INTO holdfast.definition_content (digest, content) VALUES (:digest, :content) ON CONFLICT DO NOTHING;

-- name: lock_definitions
-- Nothing to lock in SQLite: no other process writes during this transaction.
SELECT 1 AS locked WHERE :namespace <> '' OR :kind <> '' OR :name <> '';

-- name: share_definition_contents
-- Nothing to lock in SQLite, as above.
SELECT 1 AS locked;

-- name: lock_definition_contents
SELECT 1 AS locked;

-- name: old_frozen_definition
SELECT 1 AS old FROM holdfast.definition WHERE state = 'frozen' AND used_at < :before LIMIT 1;

-- name: deployed_versions
-- The version that new runs use comes first among the active ones.
SELECT version, digest, state, used_at
  FROM holdfast.definition
 WHERE namespace = :namespace AND kind = :kind AND name = :name AND state <> 'frozen'
 ORDER BY used_at DESC, LENGTH(version) DESC, version DESC;

-- name: set_definition_state
UPDATE holdfast.definition SET state = :state, used_at = :now
 WHERE namespace = :namespace AND kind = :kind AND name = :name AND version = :version;

-- name: definitions_of_route
-- The definitions that a run of this workflow and version may keep; kinds share a name rarely.
SELECT namespace, kind, name, version, definition.digest, content, state, deployed_at, deployed_by
  FROM holdfast.definition AS definition JOIN holdfast.definition_content AS content ON content.digest = definition.digest
 WHERE namespace = :namespace AND name = :name AND version = :version
 ORDER BY kind;

-- name: definition
SELECT namespace, kind, name, version, definition.digest, content, state, deployed_at, deployed_by
  FROM holdfast.definition AS definition JOIN holdfast.definition_content AS content ON content.digest = definition.digest
 WHERE namespace = :namespace AND kind = :kind AND name = :name AND version = :version;

-- name: definitions_since
SELECT namespace, name, version FROM holdfast.definition WHERE used_at >= :instant;

-- name: active_names
SELECT DISTINCT name, kind FROM holdfast.definition
 WHERE state = 'active' AND (namespace = :namespace OR :namespace = '') ORDER BY name, kind;

-- name: current_definitions
-- The version of each kind of that name that new runs use.
SELECT namespace, kind, name, version, definition.digest, content, state, deployed_at, deployed_by
  FROM holdfast.definition AS definition JOIN holdfast.definition_content AS content ON content.digest = definition.digest
 WHERE namespace = :namespace AND name = :name AND state = 'active'
   AND NOT EXISTS (SELECT 1 FROM holdfast.definition AS later
                    WHERE later.namespace = definition.namespace AND later.kind = definition.kind
                      AND later.name = definition.name AND later.state = 'active'
                      AND (later.used_at, LENGTH(later.version), later.version)
                          > (definition.used_at, LENGTH(definition.version), definition.version))
 ORDER BY kind;

-- name: listed_definitions
-- Without frozen ones: they are part of runs.
SELECT namespace, kind, name, version, definition.digest, content, state, deployed_at, deployed_by
  FROM holdfast.definition AS definition JOIN holdfast.definition_content AS content ON content.digest = definition.digest
 WHERE namespace = :namespace AND state <> 'frozen' AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
   AND (CAST(:name AS TEXT) IS NULL OR name = :name)
 ORDER BY name, kind, LENGTH(version), version;

-- name: delete_unused_definitions
DELETE FROM holdfast.definition AS definition
 WHERE state = 'frozen' AND used_at < :before
   AND NOT EXISTS (SELECT 1 FROM holdfast.route AS route
                     JOIN holdfast.run AS run ON run.route_id + 0 = route.id
                    WHERE route.namespace = definition.namespace AND route.workflow = definition.name
                      AND route.version = definition.version)
   AND NOT EXISTS (SELECT 1 FROM holdfast.schedule AS schedule
                    WHERE schedule.namespace = definition.namespace AND schedule.workflow = definition.name
                      AND schedule.version = definition.version)
   -- A member that has not started has no run yet.
   AND NOT EXISTS (SELECT 1 FROM holdfast.graph_member AS member
                    WHERE member.workflow = definition.name AND member.finished_at IS NULL);

-- name: delete_unused_contents
DELETE FROM holdfast.definition_content AS content
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.definition AS definition
                    WHERE definition.digest = content.digest);
