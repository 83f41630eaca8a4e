-- What fencing keeps in the database that it guards. The words are understood by SQLite and by PostgreSQL alike.

-- name: tables
CREATE TABLE IF NOT EXISTS fence_generation (
  run_id TEXT NOT NULL PRIMARY KEY,
  generation BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS fence_effect (
  key TEXT NOT NULL PRIMARY KEY,
  run_id TEXT NOT NULL,
  generation BIGINT NOT NULL
);

-- name: columns
ALTER TABLE {table} ADD COLUMN fence_run TEXT;
ALTER TABLE {table} ADD COLUMN fence_generation BIGINT;

-- name: admit
-- Returns nothing when a newer generation was here. The row stays locked until the transaction ends, so that whoever is overtaken
-- meanwhile comes first, whole, or is refused.
INSERT INTO fence_generation (run_id, generation) VALUES (:run_id, :generation)
ON CONFLICT (run_id) DO UPDATE SET generation = excluded.generation
WHERE fence_generation.generation <= excluded.generation
RETURNING generation;

-- name: admitted
SELECT generation FROM fence_generation WHERE run_id = :run_id;

-- name: first
-- Returns nothing when this was done before.
INSERT INTO fence_effect (key, run_id, generation) VALUES (:key, :run_id, :generation)
ON CONFLICT (key) DO NOTHING
RETURNING key;
