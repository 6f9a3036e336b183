"""Names of bases need no longer differ: a name that is "taken" by a base that one can not see gives that base away."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("knowledge", "0005_word_count_names"),
    ]

    operations = [
        migrations.RemoveConstraint(model_name="knowledgebase", name="base_name_unique"),
        migrations.AddIndex(
            model_name="knowledgebase",
            index=models.Index(
                condition=models.Q(("deleted_at__isnull", True)), fields=["workspace", "name"], name="base_by_name"
            ),
        ),
    ]
