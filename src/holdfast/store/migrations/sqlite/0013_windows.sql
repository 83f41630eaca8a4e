-- Rates by a sliding window: what began of late in a lane (the share '') and of each of its shares.

CREATE TABLE holdfast.admission (
    lane TEXT NOT NULL,
    share TEXT NOT NULL,
    at INTEGER NOT NULL,
    number INTEGER NOT NULL,  -- of the last one that began then
    count INTEGER NOT NULL,   -- how many began then
    PRIMARY KEY (lane, share, at)
) WITHOUT ROWID;
CREATE INDEX holdfast.admission_at ON holdfast.admission (lane, at) WHERE share <> '';

-- What it said was until when a burst was paid for; it says when one more may begin.
UPDATE holdfast.lane SET free_at = 0;
UPDATE holdfast.share SET free_at = 0;
