-- Keys that sign tokens for those who answer from outside. Times are microseconds since 1970.

CREATE TABLE holdfast.key (
    kid TEXT COLLATE "C" PRIMARY KEY,
    secret BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT         -- none: it is the current one, and signs
);

-- There is one current key at most, whoever makes the first one.
CREATE UNIQUE INDEX key_current ON holdfast.key ((expires_at IS NULL)) WHERE expires_at IS NULL;
