"""Questions and their vectors go with passage, revision and base in the database itself, as chunks do."""

from importlib import import_module

from django.db import migrations

_cascades = import_module("knowledge.migrations.0002_cascades")

CASCADES = [
    ("knowledge_chunkquestion", "base_id", "knowledge_knowledgebase"),
    ("knowledge_chunkquestion", "revision_id", "knowledge_revision"),
    ("knowledge_chunkquestion", "chunk_id", "knowledge_chunk"),
    ("knowledge_questionvector", "question_id", "knowledge_chunkquestion"),
    ("knowledge_questionvector", "revision_id", "knowledge_revision"),
    ("knowledge_term", "base_id", "knowledge_knowledgebase"),
]


class Migration(migrations.Migration):
    dependencies = [("knowledge", "0016_questions_terms_metadata")]

    operations = [
        migrations.RunSQL(_cascades._statement(row, "ON DELETE CASCADE"), _cascades._statement(row, ""))
        for row in CASCADES
    ]
