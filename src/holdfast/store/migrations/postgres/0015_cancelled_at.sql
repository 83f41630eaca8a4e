-- When a run was asked to stop. What happened to it before that instant is told to its workflow before the request.

ALTER TABLE holdfast.run ADD COLUMN cancelled_at BIGINT;
