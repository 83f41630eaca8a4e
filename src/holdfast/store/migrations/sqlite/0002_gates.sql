-- Keys that sign tokens for those who answer from outside. Times are microseconds since 1970.

CREATE TABLE holdfast.key (
    kid TEXT PRIMARY KEY,
    secret BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER         -- none: it is the current one, and signs
) WITHOUT ROWID;

-- There is one current key at most, whoever makes the first one.
CREATE UNIQUE INDEX holdfast.key_current ON holdfast.key ((expires_at IS NULL)) WHERE expires_at IS NULL;
