-- One row for each of the last transactions of a process: whoever loses the connection while it commits finds out by the row whether
-- it did. A void row was written in place of a transaction that had not committed, and keeps it from doing so.
CREATE TABLE holdfast.commit_marker (
    id BIGINT PRIMARY KEY,
    at BIGINT NOT NULL,
    void SMALLINT NOT NULL DEFAULT 0
);
