-- Laws about stored definitions.

-- name: a_definition_has_its_content
SELECT name FROM holdfast.definition AS definition
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.definition_content AS content WHERE content.digest = definition.digest);

-- name: the_content_of_a_definition_belongs_to_one
SELECT digest FROM holdfast.definition_content AS content
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.definition AS definition WHERE definition.digest = content.digest);

-- name: the_version_of_a_deployed_definition_is_its_only_one_with_that_content
SELECT MIN(name) AS name FROM holdfast.definition WHERE state <> 'frozen'
 GROUP BY namespace, kind, name, digest HAVING COUNT(*) > 1;
