-- Limits and fairness by share, lanes that are drained, and starts that are gathered.

ALTER TABLE holdfast.lane ADD COLUMN per_share BIGINT;         -- how many runs of one share work at once
ALTER TABLE holdfast.lane ADD COLUMN share_rate_limit BIGINT;
ALTER TABLE holdfast.lane ADD COLUMN share_rate_per BIGINT;
ALTER TABLE holdfast.lane ADD COLUMN weights TEXT COLLATE "C";              -- JSON: what a share weighs, if not 1
ALTER TABLE holdfast.lane ADD COLUMN draining BIGINT NOT NULL DEFAULT 0;

-- How far a share has got in a lane: until when its rate is spent, and its virtual time. The lane's own is that of the share ''.
CREATE TABLE holdfast.share (
    lane TEXT COLLATE "C" NOT NULL,
    share TEXT COLLATE "C" NOT NULL,
    free_at BIGINT NOT NULL DEFAULT 0,
    vtime BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (lane, share)
);

CREATE INDEX run_share ON holdfast.run (route_id, share, rank)
    WHERE rank IS NOT NULL AND share IS NOT NULL AND crashes < 2;

-- The run that gathers the starts of a key until it begins.
CREATE TABLE holdfast.gathering (
    run_id TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    count BIGINT NOT NULL,
    latest BIGINT NOT NULL,
    PRIMARY KEY (key)
);
CREATE INDEX gathering_run ON holdfast.gathering (run_id);
