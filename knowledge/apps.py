from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class KnowledgeConfig(AppConfig):
    name = "knowledge"
    verbose_name = _("Knowledge")

    def ready(self) -> None:
        """Tell those below what they can not know: who holds vectors, and which rights people have here."""
        from knowledge.bases import take_back
        from knowledge.model_changes import bases_with_vectors_of
        from portal.gateway import verbs
        from portal.kernel import people

        verbs.VECTOR_HOLDERS.append(bases_with_vectors_of)
        people.LEAVING.append(take_back)
