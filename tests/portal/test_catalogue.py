from __future__ import annotations

import ast
import gettext
import re
from io import BytesIO
from pathlib import Path

import pytest
from django.conf import settings

from portal.catalogue import collect, files, python_words, template_words
from portal.catalogue.words import Message, po_path

PLACEHOLDER = re.compile(r"%%?\((\w+)\)[^\W\d_]|%\((\w+)\)[+\-#0-9.]*[a-z]")


@pytest.fixture(scope="module")
def catalogue() -> dict[Message, str]:
    return files.read(po_path())


def test_the_chinese_catalogue_has_no_missing_entry(catalogue: dict[Message, str]) -> None:
    _, missing = collect.update()
    assert [message.key for message in missing] == []


def test_placeholders_are_the_same_in_both_languages(catalogue: dict[Message, str]) -> None:
    for message, text in catalogue.items():
        names = {first or second for first, second in PLACEHOLDER.findall(message.text + message.plural)}
        translated = {first or second for first, second in PLACEHOLDER.findall(text)}
        assert translated == names, message


def test_the_compiled_file_is_the_source_compiled(catalogue: dict[Message, str]) -> None:
    assert po_path().with_suffix(".mo").read_bytes() == files.compile_mo(catalogue)


def test_chinese_copy_keeps_the_house_rules(catalogue: dict[Message, str]) -> None:
    for message, text in catalogue.items():
        assert "您" not in text and "！" not in text, message
        # What fills a placeholder may be Chinese.
        said = PLACEHOLDER.sub(" ", text)
        assert not re.search(r"[\u4e00-\u9fff][A-Za-z0-9]|[A-Za-z0-9][\u4e00-\u9fff]", said), message


def test_a_compiled_catalogue_is_read_by_pythons_gettext() -> None:
    made = files.compile_mo(
        {
            Message("One"): "一",
            Message("Scope", context="key"): "范围",
            Message("%(n)s day", plural="%(n)s days"): "%(n)s 天",
        }
    )
    loaded = gettext.GNUTranslations(BytesIO(made))
    assert loaded.gettext("One") == "一"
    assert loaded.pgettext("key", "Scope") == "范围"
    assert loaded.ngettext("%(n)s day", "%(n)s days", 7) == "%(n)s 天"


def test_a_written_catalogue_is_read_back_as_it_was(tmp_path: Path) -> None:
    told = {Message('a "quoted"\nline\\'): "带\n换行", Message("x", "c"): "", Message("n", plural="ns"): "个"}
    files.write(tmp_path / "a.po", told)
    assert files.read(tmp_path / "a.po") == told


def test_sentences_of_the_error_family_are_found_however_they_are_raised() -> None:
    source = """
LIMIT = "Too long."
class Odd(Invalid):
    def __init__(self):
        super().__init__("Odd one.")
class Invalid(ArchwayError): ...
def f(short):
    raise errors.Invalid("Bad." if short else LIMIT, code="x")
"""
    tree = ast.parse(source)
    family = python_words.error_classes([tree])
    found = {message.text for message in python_words._of_module(tree, family)}
    assert found == {"Bad.", "Too long.", "Odd one."}


def test_messages_of_templates_are_found_with_context_and_plural() -> None:
    source = """{% load i18n %}{% translate "Ask" context "verb" %}{% include "x" with title=_("No bases yet") %}
{% blocktranslate count n=rows %}{{ n }} row{% plural %}{{ n }} rows{% endblocktranslate %}{% translate 'It"s' %}"""
    assert set(template_words.of_template(source, "t")) == {
        Message("Ask", context="verb"),
        Message("No bases yet"),
        Message("%(n)s row", plural="%(n)s rows"),
        Message('It"s'),
    }


def test_every_language_that_people_may_choose_has_its_words() -> None:
    assert [code for code, _ in settings.LANGUAGES] == ["en", "zh-hans"]
