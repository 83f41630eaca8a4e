-- Laws about the audit log.

-- name: an_audit_entry_names_a_person_and_an_action
SELECT id FROM holdfast.audit_entry WHERE asked_by = '' OR action = '';
