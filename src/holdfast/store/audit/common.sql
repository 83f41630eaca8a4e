-- The audit log: who did what.

-- name: insert_audit_entry
INSERT INTO holdfast.audit_entry (id, at, asked_by, action, subject, namespace, details)
VALUES (:id, :at, :asked_by, :action, :subject, :namespace, :details);

-- name: forget_old_audit_entries
DELETE FROM holdfast.audit_entry WHERE at < :before;

-- name: audit_entries
SELECT id, at, asked_by, action, subject, namespace, details
  FROM holdfast.audit_entry
 WHERE (CAST(:before AS TEXT) IS NULL OR id < :before)
   AND (CAST(:by AS TEXT) IS NULL OR asked_by = :by)
   AND (CAST(:action AS TEXT) IS NULL OR action = :action)
   AND (CAST(:subject AS TEXT) IS NULL OR subject = :subject)
   AND (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace)
 ORDER BY id DESC
 LIMIT :limit;
