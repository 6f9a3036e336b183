"""What searches in a million chunks read: permitted revisions from one index, and leaves in which a word is strong.

`knowledge_strong` gives the lexemes of a leaf whose saturation f / (f + n) is high, each with the number of its tier;
n is BM25's for a leaf of `words` tokens where the average is 75 (`knowledge.retrieval.word_plans` has the same
numbers). Its cost says: never compute it in a search, read the index. Built without stopping writers, therefore outside
of a transaction.
"""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

_FUNCTION = r"""
CREATE OR REPLACE FUNCTION knowledge_strong(lexemes tsvector, words integer) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE COST 100000 AS $$
  SELECT array_agg(lexeme || E'\x01' || tier) FROM (
    SELECT lexeme, width_bucket(cardinality(positions) / (cardinality(positions) + 0.3 + 0.9 * words / 75.0),
                                ARRAY[0.55, 0.65, 0.75, 0.83, 0.9]) AS tier FROM unnest(lexemes)) AS counted
   WHERE tier > 0
$$
"""
_INDEX = """
CREATE INDEX CONCURRENTLY chunk_strong ON knowledge_chunk USING gin (knowledge_strong(lexemes, words))
 WHERE level = 'leaf'
"""


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("knowledge", "0011_source_maps")]

    operations = [
        AddIndexConcurrently(
            model_name="document",
            index=models.Index(
                condition=models.Q(("active_revision__isnull", False), ("deleted_at__isnull", True), ("enabled", True)),
                fields=["base"],
                include=["active_revision"],
                name="document_searchable",
            ),
        ),
        migrations.RunSQL(_FUNCTION, "DROP FUNCTION knowledge_strong(tsvector, integer)"),
        migrations.RunSQL(_INDEX, "DROP INDEX CONCURRENTLY chunk_strong"),
    ]
