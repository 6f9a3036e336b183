"""Indexes that only searches use.

`vector_bits` answers the binary pass from the index alone (96 bytes a vector; the heap holds 8 times as much).
`chunk_disabled` holds the few chunks that people switched off.
"""

from django.db import migrations

_FORWARD = """
CREATE INDEX vector_bits ON knowledge_chunkvector (space_id, revision_id) INCLUDE (chunk_id, bits);
CREATE INDEX chunk_disabled ON knowledge_chunk (revision_id) WHERE NOT enabled;
"""
_BACK = "DROP INDEX vector_bits; DROP INDEX chunk_disabled;"


class Migration(migrations.Migration):
    dependencies = [("knowledge", "0002_cascades")]

    operations = [migrations.RunSQL(_FORWARD, _BACK)]
