-- name: policies
SELECT run_id, policy FROM holdfast.task WHERE run_id IN (SELECT value FROM json_each(:ids));

-- name: last_seqs
SELECT run_id, MAX(seq) AS seq FROM holdfast.event WHERE run_id IN (SELECT value FROM json_each(:ids)) GROUP BY run_id;
