-- Laws about graphs.

-- name: the_member_count_of_a_graph_is_correct
SELECT id FROM holdfast.graph AS graph
 WHERE members <> (SELECT COUNT(*) FROM holdfast.graph_member AS member WHERE member.graph_id = graph.id);

-- name: the_live_member_count_of_a_graph_is_correct
SELECT id FROM holdfast.graph AS graph
 WHERE live <> (SELECT COUNT(*) FROM holdfast.graph_member AS member
                 WHERE member.graph_id = graph.id AND member.state IN ('waiting', 'started'));

-- name: a_graph_ends_with_its_last_member
SELECT id FROM holdfast.graph
 WHERE (finished_at IS NULL) <> (status IN ('running', 'cancelling'))
    OR (finished_at IS NULL AND live = 0) OR (finished_at IS NOT NULL AND live > 0 AND COALESCE(policy, '') <> 'graph');

-- name: the_event_count_of_a_graph_matches_its_audit_trail
SELECT id FROM holdfast.graph AS graph
 WHERE events <> (SELECT COUNT(*) FROM holdfast.graph_event AS event WHERE event.graph_id = graph.id);

-- name: a_graph_member_belongs_to_a_graph_or_a_stage
SELECT run_id FROM holdfast.graph_member AS member
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.graph AS graph WHERE graph.id = member.graph_id)
   AND NOT EXISTS (SELECT 1 FROM holdfast.graph_stage AS stage WHERE stage.id = member.graph_id);

-- name: a_graph_member_is_staged_exactly_if_it_belongs_to_a_stage
SELECT run_id FROM holdfast.graph_member AS member
 WHERE (state = 'staged') <> EXISTS (SELECT 1 FROM holdfast.graph_stage AS stage WHERE stage.id = member.graph_id AND stage.discarded = 0)
   AND NOT EXISTS (SELECT 1 FROM holdfast.graph_stage AS stage WHERE stage.id = member.graph_id AND stage.discarded = 1);

-- name: a_staged_graph_member_has_no_run
SELECT member.run_id FROM holdfast.graph_member AS member JOIN holdfast.run AS run ON run.id = member.run_id
 WHERE member.state = 'staged';

-- name: the_member_count_of_a_graph_stage_is_correct
SELECT id FROM holdfast.graph_stage AS stage
 WHERE discarded = 0 AND written <> (SELECT COUNT(*) FROM holdfast.graph_member AS member WHERE member.graph_id = stage.id);

-- name: a_started_graph_member_has_a_run
SELECT run_id FROM holdfast.graph_member AS member
 WHERE state = 'started' AND NOT EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = COALESCE(member.joined, member.run_id));

-- name: a_waiting_graph_member_has_no_run_and_has_an_open_dependency
SELECT run_id FROM holdfast.graph_member AS member
 WHERE state = 'waiting'
   AND ((missing = 0 AND NOT EXISTS (SELECT 1 FROM holdfast.graph_outbox AS entry WHERE entry.graph_id = member.graph_id AND entry.status = 'start'))
        OR EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = member.run_id));

-- name: the_end_of_a_graph_member_is_settled_or_in_the_graph_outbox
SELECT run_id FROM holdfast.graph_member AS member
 WHERE state = 'started'
   AND EXISTS (SELECT 1 FROM holdfast.run AS run
                WHERE run.id = COALESCE(member.joined, member.run_id) AND run.finished_at IS NOT NULL)
   AND NOT EXISTS (SELECT 1 FROM holdfast.graph_outbox AS entry
                    WHERE entry.run_id = member.run_id OR entry.run_id = member.joined);

-- name: a_run_that_has_joined_a_graph_names_it_and_has_no_parent
SELECT member.run_id FROM holdfast.graph_member AS member JOIN holdfast.run AS run ON run.id = member.joined
 WHERE run.graph_id IS NULL OR run.graph_id <> member.graph_id OR run.parent_id IS NOT NULL;

-- name: a_joined_graph_member_waits_for_nothing
SELECT run_id FROM holdfast.graph_member AS member
 WHERE joined IS NOT NULL
   AND (state IN ('staged', 'waiting', 'skipped')
        OR EXISTS (SELECT 1 FROM holdfast.graph_group AS part WHERE part.run_id = member.run_id));

-- name: the_open_dependency_count_of_a_waiting_graph_member_is_correct
-- Plus one while the previous end of a replayed upstream is being taken back.
SELECT run_id FROM holdfast.graph_member AS member
 WHERE state = 'waiting'
   AND missing <> (SELECT COUNT(*) FROM holdfast.graph_group AS part WHERE part.run_id = member.run_id AND part.state <> 'satisfied')
                + (SELECT COUNT(*) FROM holdfast.graph_outbox AS entry WHERE entry.run_id = member.run_id AND entry.status = 'replay');

-- name: the_size_and_need_of_a_dependency_group_match_its_edges
SELECT run_id FROM holdfast.graph_group AS part
 WHERE total <> (SELECT COUNT(*) FROM holdfast.graph_edge AS edge WHERE edge.dependent = part.run_id AND edge.number = part.number)
    OR need < 1 OR need > total;

-- name: the_outcome_counts_of_a_dependency_group_are_correct
-- Except while the end of a member with very many dependents is being resolved, or while the group
-- is not in a graph.
SELECT run_id FROM holdfast.graph_group AS part
 WHERE (done <> (SELECT COUNT(*) FROM holdfast.graph_edge AS edge JOIN holdfast.graph_member AS member ON member.run_id = edge.upstream
                 WHERE edge.dependent = part.run_id AND edge.number = part.number AND member.state = 'completed')
    OR lost <> (SELECT COUNT(*) FROM holdfast.graph_edge AS edge JOIN holdfast.graph_member AS member ON member.run_id = edge.upstream
                 WHERE edge.dependent = part.run_id AND edge.number = part.number
                   AND member.state IN ('failed', 'cancelled', 'expired', 'skipped')))
   AND NOT EXISTS (SELECT 1 FROM holdfast.graph_edge AS edge JOIN holdfast.graph_outbox AS entry ON entry.run_id = edge.upstream
                    WHERE edge.dependent = part.run_id AND edge.number = part.number AND entry.place IS NOT NULL)
   AND NOT EXISTS (SELECT 1 FROM holdfast.graph_member AS member JOIN holdfast.graph_stage AS stage ON stage.id = member.graph_id
                    WHERE member.run_id = part.run_id);

-- name: a_waiting_graph_member_can_still_be_started
SELECT run_id FROM holdfast.graph_group AS part
 WHERE (state = 'impossible' OR (state = 'open' AND (done >= need OR lost > total - need)) OR (state = 'satisfied' AND done < need))
   AND NOT EXISTS (SELECT 1 FROM holdfast.graph_member AS member WHERE member.run_id = part.run_id AND member.state <> 'waiting')
   AND NOT EXISTS (SELECT 1 FROM holdfast.graph_member AS member JOIN holdfast.graph_outbox AS entry ON entry.graph_id = member.graph_id
                    WHERE member.run_id = part.run_id AND entry.status IN ('cancel', 'skip', 'replay'));

-- name: a_graph_edge_connects_members_of_one_graph
SELECT edge.dependent FROM holdfast.graph_edge AS edge
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.graph_member AS one JOIN holdfast.graph_member AS other ON other.graph_id = one.graph_id
                    WHERE one.run_id = edge.upstream AND other.run_id = edge.dependent)
   AND NOT EXISTS (SELECT 1 FROM holdfast.graph_member AS member JOIN holdfast.graph_stage AS stage ON stage.id = member.graph_id
                    WHERE member.run_id = edge.dependent);

-- name: the_edges_of_a_graph_form_no_cycle
WITH RECURSIVE reached AS (
    SELECT upstream AS run_id FROM holdfast.graph_edge AS edge
     WHERE NOT EXISTS (SELECT 1 FROM holdfast.graph_edge AS above WHERE above.dependent = edge.upstream)
     UNION
    SELECT edge.dependent FROM holdfast.graph_edge AS edge JOIN reached ON edge.upstream = reached.run_id
)
SELECT DISTINCT dependent FROM holdfast.graph_edge
 WHERE upstream = dependent OR dependent NOT IN (SELECT run_id FROM reached);

-- name: a_graph_outbox_row_has_a_known_status
SELECT run_id FROM holdfast.graph_outbox
 WHERE status NOT IN ('completed', 'failed', 'cancelled', 'expired', 'skipped', 'start', 'skip', 'cancel', 'rest', 'replay');

-- name: a_graph_outbox_row_belongs_to_a_graph
SELECT graph_id FROM holdfast.graph_outbox AS entry
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.graph AS graph WHERE graph.id = entry.graph_id);
