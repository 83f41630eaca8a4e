-- Laws about graphs.

-- name: a_graph_counts_its_members
SELECT id FROM holdfast.graph AS graph
 WHERE members <> (SELECT COUNT(*) FROM holdfast.graph_member AS member WHERE member.graph_id = graph.id);

-- name: a_graph_counts_its_members_that_have_not_ended
SELECT id FROM holdfast.graph AS graph
 WHERE live <> (SELECT COUNT(*) FROM holdfast.graph_member AS member
                 WHERE member.graph_id = graph.id AND member.state IN ('waiting', 'started'));

-- name: a_graph_ends_with_its_last_member
SELECT id FROM holdfast.graph
 WHERE (finished_at IS NULL) <> (status IN ('running', 'cancelling'))
    OR (finished_at IS NULL AND live = 0) OR (finished_at IS NOT NULL AND live > 0 AND COALESCE(policy, '') <> 'graph');

-- name: a_graph_tells_each_change_in_its_audit_trail
SELECT id FROM holdfast.graph AS graph
 WHERE events <> (SELECT COUNT(*) FROM holdfast.graph_event AS event WHERE event.graph_id = graph.id);

-- name: a_member_belongs_to_a_graph
SELECT run_id FROM holdfast.graph_member AS member
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.graph AS graph WHERE graph.id = member.graph_id)
   AND NOT EXISTS (SELECT 1 FROM holdfast.graph_stage AS stage WHERE stage.id = member.graph_id);

-- name: a_member_is_staged_until_its_graph_has_it
SELECT run_id FROM holdfast.graph_member AS member
 WHERE (state = 'staged') <> EXISTS (SELECT 1 FROM holdfast.graph_stage AS stage WHERE stage.id = member.graph_id AND stage.discarded = 0)
   AND NOT EXISTS (SELECT 1 FROM holdfast.graph_stage AS stage WHERE stage.id = member.graph_id AND stage.discarded = 1);

-- name: a_staged_member_has_no_run
SELECT member.run_id FROM holdfast.graph_member AS member JOIN holdfast.run AS run ON run.id = member.run_id
 WHERE member.state = 'staged';

-- name: a_stage_counts_its_members
SELECT id FROM holdfast.graph_stage AS stage
 WHERE discarded = 0 AND written <> (SELECT COUNT(*) FROM holdfast.graph_member AS member WHERE member.graph_id = stage.id);

-- name: a_member_that_was_started_has_a_run
SELECT run_id FROM holdfast.graph_member AS member
 WHERE state = 'started' AND NOT EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = member.run_id);

-- name: a_member_that_waits_has_no_run_and_waits_for_something
SELECT run_id FROM holdfast.graph_member AS member
 WHERE state = 'waiting'
   AND ((missing = 0 AND NOT EXISTS (SELECT 1 FROM holdfast.graph_outbox AS news WHERE news.graph_id = member.graph_id AND news.status = 'start'))
        OR EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = member.run_id));

-- name: a_graph_hears_of_the_end_of_a_member
SELECT run_id FROM holdfast.graph_member AS member
 WHERE state = 'started'
   AND EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = member.run_id AND run.finished_at IS NOT NULL)
   AND NOT EXISTS (SELECT 1 FROM holdfast.graph_outbox AS news WHERE news.run_id = member.run_id);

-- name: a_member_that_waits_counts_what_it_waits_for
-- Plus one while the previous end of a replayed upstream is being taken back.
SELECT run_id FROM holdfast.graph_member AS member
 WHERE state = 'waiting'
   AND missing <> (SELECT COUNT(*) FROM holdfast.graph_group AS part WHERE part.run_id = member.run_id AND part.state <> 'satisfied')
                + (SELECT COUNT(*) FROM holdfast.graph_outbox AS news WHERE news.run_id = member.run_id AND news.status = 'replay');

-- name: a_group_has_as_many_edges_as_it_says
SELECT run_id FROM holdfast.graph_group AS part
 WHERE total <> (SELECT COUNT(*) FROM holdfast.graph_edge AS edge WHERE edge.dependent = part.run_id AND edge.number = part.number)
    OR need < 1 OR need > total;

-- name: a_group_counts_how_its_members_ended
-- Except while the end of a member with very many dependents is being resolved, or while the group
-- is not in a graph.
SELECT run_id FROM holdfast.graph_group AS part
 WHERE (done <> (SELECT COUNT(*) FROM holdfast.graph_edge AS edge JOIN holdfast.graph_member AS member ON member.run_id = edge.upstream
                 WHERE edge.dependent = part.run_id AND edge.number = part.number AND member.state = 'completed')
    OR lost <> (SELECT COUNT(*) FROM holdfast.graph_edge AS edge JOIN holdfast.graph_member AS member ON member.run_id = edge.upstream
                 WHERE edge.dependent = part.run_id AND edge.number = part.number
                   AND member.state IN ('failed', 'cancelled', 'expired', 'skipped')))
   AND NOT EXISTS (SELECT 1 FROM holdfast.graph_edge AS edge JOIN holdfast.graph_outbox AS news ON news.run_id = edge.upstream
                    WHERE edge.dependent = part.run_id AND edge.number = part.number AND news.place IS NOT NULL)
   AND NOT EXISTS (SELECT 1 FROM holdfast.graph_member AS member JOIN holdfast.graph_stage AS stage ON stage.id = member.graph_id
                    WHERE member.run_id = part.run_id);

-- name: whoever_waits_can_still_be_started
SELECT run_id FROM holdfast.graph_group AS part
 WHERE (state = 'impossible' OR (state = 'open' AND (done >= need OR lost > total - need)) OR (state = 'satisfied' AND done < need))
   AND NOT EXISTS (SELECT 1 FROM holdfast.graph_member AS member WHERE member.run_id = part.run_id AND member.state <> 'waiting')
   AND NOT EXISTS (SELECT 1 FROM holdfast.graph_member AS member JOIN holdfast.graph_outbox AS news ON news.graph_id = member.graph_id
                    WHERE member.run_id = part.run_id AND news.status IN ('cancel', 'skip', 'replay'));

-- name: an_edge_stays_in_its_graph
SELECT edge.dependent FROM holdfast.graph_edge AS edge
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.graph_member AS one JOIN holdfast.graph_member AS other ON other.graph_id = one.graph_id
                    WHERE one.run_id = edge.upstream AND other.run_id = edge.dependent)
   AND NOT EXISTS (SELECT 1 FROM holdfast.graph_member AS member JOIN holdfast.graph_stage AS stage ON stage.id = member.graph_id
                    WHERE member.run_id = edge.dependent);

-- name: no_member_waits_for_itself
WITH RECURSIVE reached AS (
    SELECT upstream AS run_id FROM holdfast.graph_edge AS edge
     WHERE NOT EXISTS (SELECT 1 FROM holdfast.graph_edge AS above WHERE above.dependent = edge.upstream)
     UNION
    SELECT edge.dependent FROM holdfast.graph_edge AS edge JOIN reached ON edge.upstream = reached.run_id
)
SELECT DISTINCT dependent FROM holdfast.graph_edge
 WHERE upstream = dependent OR dependent NOT IN (SELECT run_id FROM reached);

-- name: news_tell_of_an_end_or_of_work_that_goes_on
SELECT run_id FROM holdfast.graph_outbox
 WHERE status NOT IN ('completed', 'failed', 'cancelled', 'expired', 'skipped', 'start', 'skip', 'cancel', 'rest', 'replay');

-- name: news_belong_to_a_graph
SELECT graph_id FROM holdfast.graph_outbox AS news
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.graph AS graph WHERE graph.id = news.graph_id);
