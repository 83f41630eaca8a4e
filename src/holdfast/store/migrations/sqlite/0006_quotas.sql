-- Limits and fairness by share, lanes that are drained, and starts that are gathered.

ALTER TABLE holdfast.lane ADD COLUMN per_share INTEGER;         -- how many runs of one share work at once
ALTER TABLE holdfast.lane ADD COLUMN share_rate_limit INTEGER;
ALTER TABLE holdfast.lane ADD COLUMN share_rate_per INTEGER;
ALTER TABLE holdfast.lane ADD COLUMN weights TEXT;              -- JSON: what a share weighs, if not 1
ALTER TABLE holdfast.lane ADD COLUMN draining INTEGER NOT NULL DEFAULT 0;

-- How far a share has got in a lane: until when its rate is spent, and its virtual time. The lane's own is that of the share ''.
CREATE TABLE holdfast.share (
    lane TEXT NOT NULL,
    share TEXT NOT NULL,
    free_at INTEGER NOT NULL DEFAULT 0,
    vtime INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (lane, share)
) WITHOUT ROWID;

CREATE INDEX holdfast.run_share ON holdfast.run (route_id, share, rank)
    WHERE rank IS NOT NULL AND share IS NOT NULL AND crashes < 2;

-- The run that gathers the starts of a key until it begins.
CREATE TABLE holdfast.gathering (
    run_id TEXT NOT NULL,
    key TEXT NOT NULL,
    count INTEGER NOT NULL,
    latest INTEGER NOT NULL,
    PRIMARY KEY (key)
) WITHOUT ROWID;
CREATE INDEX holdfast.gathering_run ON holdfast.gathering (run_id);
