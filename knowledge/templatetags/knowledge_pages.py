"""Filters of the pages of a base: `{% load knowledge_pages %}`."""

from __future__ import annotations

from django import template
from django.utils.translation import gettext_lazy

from knowledge.pages import passages

register = template.Library()

STAGES = {
    "parsing": gettext_lazy("Parsing"),
    "segmenting": gettext_lazy("Splitting"),
    "vectorizing": gettext_lazy("Vectorizing"),
}


@register.filter
def stage_word(stage: str) -> str:
    """The name of a stage of the work, as an attempt keeps it."""
    return str(STAGES.get(stage, stage))


@register.filter
def passage_parts(text: str) -> tuple[passages.Part, ...]:
    """A passage's text as paragraphs and tables, for `knowledge/passage_body.html`."""
    return passages.parts(text, ())


@register.filter
def variant_name(variant: str) -> str:
    """The name of a variant of an evaluation, in the reader's language where it is one of ours."""
    from knowledge.pages.evaluation_shown import name_of

    return name_of(variant)
