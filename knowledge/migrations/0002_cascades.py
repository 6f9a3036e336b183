"""Cascades in the database itself, so that nothing outlives its base, subject or revision whatever deletes it."""

from django.db import migrations

CASCADES = [
    ("knowledge_grant", "base_id", "knowledge_knowledgebase"),
    ("knowledge_grant", "user_id", "kernel_user"),
    ("knowledge_grant", "department_id", "kernel_department"),
    ("knowledge_document", "base_id", "knowledge_knowledgebase"),
    ("knowledge_revision", "document_id", "knowledge_document"),
    ("knowledge_revision", "base_id", "knowledge_knowledgebase"),
    ("knowledge_chunk", "revision_id", "knowledge_revision"),
    ("knowledge_chunk", "parent_id", "knowledge_chunk"),
    ("knowledge_chunkvector", "chunk_id", "knowledge_chunk"),
    ("knowledge_chunkvector", "revision_id", "knowledge_revision"),
    ("knowledge_chunkversion", "chunk_id", "knowledge_chunk"),
    ("knowledge_attempt", "revision_id", "knowledge_revision"),
    ("knowledge_storedimage", "revision_id", "knowledge_revision"),
    ("knowledge_revisionterms", "base_id", "knowledge_knowledgebase"),
    ("knowledge_baseterm", "base_id", "knowledge_knowledgebase"),
]

# Django names foreign keys with a hash, so each is looked up by its column.
_REPLACE = """
DO $$
DECLARE old text;
BEGIN
  SELECT c.conname INTO old FROM pg_constraint c
    JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
   WHERE c.contype = 'f' AND c.conrelid = '{table}'::regclass AND a.attname = '{column}';
  EXECUTE format('ALTER TABLE {table} DROP CONSTRAINT %I', old);
  EXECUTE format('ALTER TABLE {table} ADD CONSTRAINT %I FOREIGN KEY ({column}) REFERENCES {target} (id) {action} '
                 'DEFERRABLE INITIALLY DEFERRED', old);
END $$;
"""


def _statement(row, action):
    table, column, target = row
    return _REPLACE.replace("{table}", table).replace("{column}", column).replace("{target}", target).replace(
        "{action}", action
    )


class Migration(migrations.Migration):
    dependencies = [("knowledge", "0001_initial")]

    operations = [
        migrations.RunSQL(_statement(row, "ON DELETE CASCADE"), _statement(row, "")) for row in CASCADES
    ]
