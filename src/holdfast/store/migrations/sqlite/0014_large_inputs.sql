-- The input of a run stays as it is while its row changes, and SQLite writes a row that changes anew as a whole: an input that is not
-- small is kept here, and the run has an empty one.

-- With numbers of its own: then as much of it as a page can hold is where it is found.
CREATE TABLE holdfast.large_input (
    run_id TEXT PRIMARY KEY,
    input BLOB NOT NULL
);

-- Whoever writes another input writes it to the run.
CREATE TRIGGER holdfast.large_input_replaced AFTER UPDATE OF input ON holdfast.run
BEGIN
    DELETE FROM holdfast.large_input WHERE run_id = NEW.id;
END;

CREATE TRIGGER holdfast.large_input_gone AFTER DELETE ON holdfast.run
BEGIN
    DELETE FROM holdfast.large_input WHERE run_id = OLD.id;
END;
