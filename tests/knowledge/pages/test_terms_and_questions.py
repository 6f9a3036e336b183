"""Terms and questions on pages and through the API."""

from __future__ import annotations

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from knowledge.models import Chunk, ChunkQuestion, Document, KnowledgeBase, Term
from portal.kernel import keys
from tests.support.people import World, indexed


@pytest.fixture
def alice(world: World) -> Client:
    client = Client()
    client.force_login(world.alice)
    return client


@pytest.fixture
def api(world: World) -> Client:
    _, secret = keys.create(world.principal(world.alice), name="k", scopes=["kb:read", "kb:write", "kb:manage"])
    return Client(headers={"Authorization": f"Bearer {secret}"})


@pytest.fixture
def document(world: World) -> Document:
    return indexed(world.principal(world.alice), world.base, "leave.md", "# Leave\n\n带薪休假要提前申请 in advance.\n")


def passage(document: Document) -> Chunk:
    return Chunk.objects.defer("lexemes").get(revision=document.active_revision, level="passage")


def sheet(text: str, name: str = "sheet.csv") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, text.encode())


def test_terms_are_added_changed_and_deleted_on_their_page(world: World, alice: Client) -> None:
    url = f"/bases/{world.base.uid}/terms/"
    assert "No terms yet" in alice.get(url).content.decode()
    data = {"verb": "add", "text": "年假", "synonyms": "带薪休假, annual leave", "weight": "1"}
    assert alice.post(f"{url}change/", data).status_code == 302
    term = Term.objects.get(base=world.base)
    assert term.synonyms == ["带薪休假", "annual leave"]
    shown = alice.get(url).content.decode()
    assert "annual leave" in shown and "chunks are looked through" in shown
    refused = alice.post(f"{url}change/", data)
    assert refused.status_code == 422 and "there already" in refused.content.decode()
    change = {"verb": "change", "term": term.uid, "text": "年假", "synonyms": "休假", "weight": "2,5"}
    alice.post(f"{url}change/", change)
    term.refresh_from_db()
    assert (term.synonyms, term.weight) == (["休假"], 2.5)
    assert alice.post(f"{url}change/", {**change, "weight": "nonsense"}).status_code == 422
    assert "休假" in alice.get(f"{url}sheet/").content.decode("utf-8-sig")
    alice.post(f"{url}change/", {"verb": "delete", "term": term.uid})
    assert not Term.objects.exists()


def test_readers_see_terms_and_change_nothing(world: World) -> None:
    bob = Client()
    bob.force_login(world.bob)
    url = f"/bases/{world.base.uid}/terms/"
    assert "New term" not in bob.get(url).content.decode()
    assert bob.post(f"{url}change/", {"verb": "add", "text": "x"}).status_code == 403
    assert bob.post(f"{url}import/", {"file": sheet("term\nx\n")}).status_code == 403


def test_a_sheet_of_terms_tells_what_is_wrong_with_its_rows(world: World, alice: Client, api: Client) -> None:
    rows = "术语,同义词,权重\n年假,带薪休假;annual leave,2\n,x,1\n病假,,abc\n年假,again,1\n"
    answer = alice.post(f"/bases/{world.base.uid}/terms/import/", {"file": sheet(rows)}).content.decode()
    assert "1 term taken over" in answer
    assert all(f"row {n}" in answer for n in (3, 4, 5))
    body = api.post(f"/api/v1/bases/{world.base.uid}/term-sheets", {"file": sheet("term\nlaptop\n"), "replace": "true"})
    assert body.json() == {"taken": 1, "problems": []}
    assert [term.text for term in Term.objects.filter(base=world.base)] == ["laptop"]


def test_terms_through_the_api(world: World, api: Client) -> None:
    url = f"/api/v1/bases/{world.base.uid}/terms"
    json = "application/json"
    made = api.post(url, {"text": "年假", "synonyms": ["休假"]}, content_type=json)
    assert made.status_code == 201
    api.post(url, {"text": "病假", "synonyms": ["休假"]}, content_type=json)
    assert api.post(url, {"text": "年假"}, content_type=json).json()["code"] == "term_taken"
    body = api.get(url).json()
    assert [term["text"] for term in body["terms"]] == sorted(["年假", "病假"])
    assert body["conflicts"] == [{"kind": "synonym_twice", "word": "休假", "terms": ["年假", "病假"]}]
    assert body["work"]["status"] == "queued"
    one = f"{url}/{made.json()['id']}"
    assert api.put(one, {"text": "年假", "weight": 3}, content_type=json).json()["weight"] == 3
    assert api.delete(one).status_code == 204
    assert api.get(one).status_code == 404


def test_questions_on_the_page_of_chunks(world: World, alice: Client, document: Document) -> None:
    chunk = passage(document)
    page = f"/bases/{world.base.uid}/documents/{document.uid}/chunks/"
    url = f"{page}{chunk.pk}/questions/"
    assert alice.post(url, {"verb": "add", "text": "Who decides?\n\nHow early?\n"}).status_code == 302
    first, second = ChunkQuestion.objects.order_by("pk")
    shown = alice.get(page).content.decode()
    assert "2 questions lead here" in shown and "Who decides?" in shown
    alice.post(url, {"verb": "change", "question": first.uid, "text": "Who approves?"})
    alice.post(url, {"verb": "disable", "question": second.uid})
    panel = alice.get(f"{page}?open={chunk.pk}&panel=questions").content.decode()
    assert "Who approves?" in panel and "Switch on" in panel
    assert alice.post(url, {"verb": "add", "text": "x" * 501}).status_code == 422
    alice.post(url, {"verb": "delete", "question": first.uid})
    assert ChunkQuestion.objects.count() == 1
    assert alice.post(url, {"verb": "delete", "question": first.uid}).status_code == 404


def test_questions_through_the_api_and_in_a_hit(world: World, api: Client, document: Document) -> None:
    json = "application/json"
    url = f"/api/v1/chunks/{passage(document).pk}/questions"
    (made,) = api.post(url, {"questions": ["Whom do I tell?"]}, content_type=json).json()
    assert made["current"] is True and made["source"] == "hand"
    found = api.post("/api/v1/search", {"query": "whom tell", "mode": "keywords"}, content_type=json).json()
    assert found["hits"][0]["question"] == "Whom do I tell?"
    one = f"/api/v1/questions/{made['id']}"
    assert api.patch(one, {"enabled": False}, content_type=json).json()["enabled"] is False
    assert not api.post("/api/v1/search", {"query": "whom tell", "mode": "keywords"}, content_type=json).json()["hits"]
    assert api.delete(one).status_code == 204
    assert api.get(url).json() == []


def test_a_sheet_of_questions_for_passages(world: World, api: Client, document: Document) -> None:
    head = "document,heading,question\nleave.md,Leave,Whom do I tell?\n"
    rows = f"{head}leave.md,,How early?\nleave.md,Pay,x?\nno.md,,y?\n,,\n"
    body = api.post(f"/api/v1/bases/{world.base.uid}/chunk-question-sheets", {"file": sheet(rows)}).json()
    assert (body["added"], body["there"]) == (2, 0)
    assert [(one["row"], one["code"]) for one in body["problems"]] == [(4, "row_passage"), (5, "row_document")]
    assert set(ChunkQuestion.objects.values_list("source", flat=True)) == {"imported"}


def test_metadata_is_set_and_narrows_a_search(world: World, alice: Client, api: Client, document: Document) -> None:
    json = "application/json"
    url = f"/api/v1/documents/{document.uid}"
    facts = {"year": 2026, "regions": ["east", "west"], "state": "final", "until": "2027-01-31"}
    assert api.patch(url, {"metadata": facts}, content_type=json).json()["metadata"] == facts
    assert api.patch(url, {"metadata": {"x": {"y": 1}}}, content_type=json).json()["code"] == "metadata_invalid"

    def hits(*conditions: tuple[str, str, object]) -> int:
        rows = [{"key": key, "op": op, "value": value} for key, op, value in conditions]
        body = {"query": "advance", "mode": "keywords", "filters": {"metadata": rows}}
        return len(api.post("/api/v1/search", body, content_type=json).json()["hits"])

    assert hits(("year", "=", 2026), ("regions", "=", "west"), ("state", "in", ["final", "draft"])) == 1
    assert hits(("year", ">=", 2026), ("year", "<", 2027), ("until", ">", "2026-12-31")) == 1
    assert hits(("year", ">", 2026)) == hits(("state", ">", 1)) == hits(("regions", "=", "north")) == 0
    bad = {"query": "x", "filters": {"metadata": [{"key": "k", "op": "~", "value": 1}]}}
    assert api.post("/api/v1/search", bad, content_type=json).status_code == 422
    page = f"/bases/{world.base.uid}/hit-test/"
    form = {"q": "advance", "top_k": "5", "threshold": "0", "weight": "0.5", "fusion": "convex", "neighbours": "0"}
    assert alice.post(page, {**form, "meta": "year"}).status_code == 422
    alice.post(
        f"/bases/{world.base.uid}/documents/{document.uid}/describe/",
        {"name": "leave.md", "folder": "", "tags": "", "metadata": "year: 2025\ndraft: true"},
    )
    document.refresh_from_db()
    assert document.metadata == {"year": 2025, "draft": True}


def test_front_matter_becomes_metadata_and_what_people_set_stays(world: World) -> None:
    from knowledge import documents

    alice = world.principal(world.alice)
    text = "---\ntitle: Leave\nyear: 2024\nregions: [east, west]\n---\n\n# Leave\n\nIn advance.\n"
    document = indexed(alice, world.base, "facts.md", text)
    assert document.metadata == {"year": 2024, "regions": ["east", "west"]}
    documents.describe(alice, document, metadata={"year": 2025, "regions": ["east", "west"]})
    document = indexed(alice, world.base, "facts.md", text.replace("2024", "2026").replace("[east, west]", "[north]"))
    assert document.metadata == {"year": 2025, "regions": ["north"]}


def test_the_settings_of_searches_have_the_new_options(world: World, alice: Client) -> None:
    page = alice.get(f"/bases/{world.base.uid}/settings/?section=searching").content.decode()
    assert "Understand pinyin" in page and "Put mistyped words right" in page
    assert KnowledgeBase.objects.get(pk=world.base.pk).config["searching"]["typos"] is False
