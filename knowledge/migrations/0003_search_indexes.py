"""Indexes as searches need them.

`vector_revision` carries chunk and signs with it, so that the binary pass is answered by the index alone (some
100 bytes a vector; the table itself holds 8 times as much). `chunk_disabled` holds the few chunks that people
switched off.
"""

from django.db import migrations

_FORWARD = """
DROP INDEX vector_revision;
CREATE INDEX vector_revision ON knowledge_chunkvector (revision_id, space_id) INCLUDE (chunk_id, bits);
CREATE INDEX chunk_disabled ON knowledge_chunk (revision_id) WHERE NOT enabled;
"""
_BACK = """
DROP INDEX chunk_disabled;
DROP INDEX vector_revision;
CREATE INDEX vector_revision ON knowledge_chunkvector (revision_id, space_id);
"""


class Migration(migrations.Migration):
    dependencies = [("knowledge", "0002_cascades")]

    operations = [migrations.RunSQL(_FORWARD, _BACK)]
