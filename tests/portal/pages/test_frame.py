from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from knowledge import bases
from knowledge.models import Role
from portal.kernel import people
from portal.kernel.models import User
from portal.kernel.principal import for_user
from tests.support.people import World

PAGES = [
    "/", "/bases/", "/bases/new/", "/tasks/", "/tasks/?tab=attention", "/notifications/", "/search/?q=hand",
    "/account/keys/", "/account/keys/new/", "/account/preferences/", "/no-such-page/",
]  # fmt: skip
# What the strict policy would refuse: handlers and styles in attributes, scripts and styles in the page.
INLINE = re.compile(r"<[^>]+\s(style|on\w+|hx-on\S*)\s*=|<script(?![^>]*\ssrc=)|<style|javascript:", re.IGNORECASE)
ENGLISH_CHROME = re.compile(
    r"(?<![\w/.-])(Home|Bases|Tasks|Search|Sign out|Save|Cancel|Name|Preferences|Notifications)(?![\w/.-])"
)


@pytest.mark.parametrize("address", PAGES)
def test_every_page_is_strict_about_scripts_and_styles(alice: Client, address: str) -> None:
    response = alice.get(address)
    policy = response["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy and "form-action 'self'" in policy
    assert INLINE.search(response.content.decode()) is None
    assert response["Cache-Control"] == "private, no-store"


@pytest.mark.parametrize("address", PAGES)
def test_every_page_speaks_chinese_without_english_left_over(alice: Client, address: str) -> None:
    alice.cookies["django_language"] = "zh-hans"
    html = alice.get(address).content.decode()
    text = re.sub(r"<template.*?</template>|<[^>]*>", " ", html, flags=re.DOTALL)
    assert '<html lang="zh-hans"' in html
    assert "知识门户" in html
    assert ENGLISH_CHROME.search(text) is None


@pytest.mark.parametrize("address", PAGES)
def test_every_page_has_one_heading_and_at_most_one_primary_action(alice: Client, address: str) -> None:
    html = alice.get(address).content.decode()
    assert len(re.findall(r"<h1[\s>]", html)) == 1
    assert len(re.findall(r'class="[^"]*button--primary', html)) <= 1
    ids = re.findall(r'\sid="([^"]+)"', html)
    assert sorted(set(ids)) == sorted(ids)


@pytest.mark.parametrize("theme", ["auto", "light", "dark"])
def test_the_theme_is_rendered_by_the_server(alice: Client, world: World, theme: str) -> None:
    alice.post("/theme/", {"theme": theme})
    assert f'data-theme="{theme}"' in alice.get("/").content.decode()
    assert User.objects.get(pk=world.alice.pk).theme == theme


def test_an_unknown_theme_or_language_is_refused(alice: Client) -> None:
    assert alice.post("/theme/", {"theme": '"><script>'}).status_code == 422
    assert alice.post("/language/", {"language": "xx"}).status_code == 422
    alice.cookies["theme"] = '"><script>'
    assert 'data-theme="auto"' in alice.get("/").content.decode()


def test_the_language_can_be_switched_before_and_after_sign_in(alice: Client, world: World) -> None:
    stranger = Client()
    response = stranger.post("/language/", {"language": "zh-hans", "next": "/sign-in/?next=/tasks/"})
    assert response["Location"] == "/sign-in/?next=/tasks/"
    assert "登录" in stranger.get("/sign-in/").content.decode()
    assert alice.post("/language/", {"language": "zh-hans", "next": "https://evil.example/"})["Location"] == "/"
    assert User.objects.get(pk=world.alice.pk).language == "zh-hans"


def test_a_person_of_two_workspaces_switches_between_them(alice: Client, world: World) -> None:
    people.set_membership(None, world.elsewhere, world.alice)
    eve = for_user(world.eve, door="web")
    bases.grant(eve, world.eves_base, Role.VIEWER, user=world.alice)
    assert "Eve&#x27;s" not in alice.get("/bases/").content.decode()
    assert alice.post("/workspace/", {"workspace": world.elsewhere.uid}).status_code == 302
    page = alice.get("/bases/").content.decode()
    assert "Eve&#x27;s" in page and "Handbook" not in page


def test_nobody_switches_into_a_workspace_of_others(alice: Client, world: World) -> None:
    assert alice.post("/workspace/", {"workspace": world.elsewhere.uid}).status_code == 404
    assert "Handbook" in alice.get("/bases/").content.decode()


def test_a_missing_page_says_so_in_html_and_in_json(alice: Client) -> None:
    page = alice.get("/nowhere/")
    assert page.status_code == 404
    assert "Page not found, or you don&#x27;t have access." in page.content.decode()
    program = alice.get("/api/v1/nowhere", HTTP_ACCEPT="application/json")
    assert program.status_code == 404
    assert program["Content-Type"].startswith("application/problem+json")


def test_a_fault_of_ours_is_a_plain_page_with_the_trace_id(alice: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fall_over(*args: object, **kwargs: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("portal.pages.search.visible_bases", fall_over)
    alice.raise_request_exception = False
    response = alice.get("/search/?q=x")
    html = response.content.decode()
    assert response.status_code == 500
    assert response["X-Request-Id"] in html and "secret detail" not in html
    assert "Something went wrong on our side" in html


def test_the_process_answers_probes_without_a_session(db: None) -> None:
    assert Client().get("/healthz").content == b"ok\n"
    assert Client().get("/favicon.ico")["Location"] == "/static/icons/favicon.svg"
    assert Client().get("/readyz").json() == {"ready": True, "database": True, "redis": True}


def test_dark_stands_twice_in_the_tokens_and_both_agree() -> None:
    css = Path(settings.BASE_DIR / "static/css/tokens.css").read_text("utf-8")
    blocks = re.findall(r"color-scheme: dark;(.*?)\}", css, flags=re.DOTALL)
    assert len(blocks) == 2
    assert blocks[0].split() == blocks[1].split()


def test_no_colour_is_named_outside_the_tokens() -> None:
    for path in Path(settings.BASE_DIR / "static/css").glob("*.css"):
        if path.name not in {"tokens.css", "api_docs.css"}:
            colours = re.findall(
                r"#[0-9a-fA-F]{3,8}\b", re.sub(r"/\*.*?\*/", "", path.read_text("utf-8"), flags=re.DOTALL)
            )
            # The veil behind dialogs, and the paper under pictures of pages.
            assert set(colours) <= {"#10182880", "#fff"}, path.name


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_on_their_grounds_keep_the_promised_contrast(scheme: str) -> None:
    css = Path(settings.BASE_DIR / "static/css/tokens.css").read_text("utf-8")
    block = re.findall(rf"color-scheme: {scheme};(.*?)\}}", css, flags=re.DOTALL)[0]
    token = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
    for name, ground, least in [
        ("text", "bg", 11.4), ("muted", "sunken", 5.4), ("accent", "accent-soft", 5.0), ("control", "bg", 3.1),
        ("text", "mark", 7.2), ("on-accent", "accent", 4.5), ("on-accent", "bad", 4.5),
        *[(tone, f"{tone}-soft", 5.5) for tone in ("ok", "warn", "bad", "info")],
    ]:  # fmt: skip
        assert _contrast(token[name], token[ground]) >= least - 0.05, (scheme, name, ground)
