"""The requests of Open WebUI to a server of OpenAI's kind, with its own headers and members, and what it reads in the answers.

Read in its package open-webui 0.12.4: routers/openai.py, routers/audio, routers/images.py, retrieval/utils.py, retrieval/models/external.py.
"""

import base64
import io
import json
import re
import wave

import httpx
import pytest
from processes import eventually, running_gateway
from upstreams import SERVER

KEY, ADMIN = "sk-open-webui-test", "sk-open-webui-admin"
CONFIG = f"""
{SERVER}
[[providers]]
name = "demo"
api = "demo"

[[keys]]
name = "open-webui"
key = "{KEY}"
trust_attribution = true

[[keys]]
name = "admin"
key = "{ADMIN}"
role = "admin"
"""
USER = {
    "X-OpenWebUI-User-Name": "Gr%C3%BCn Ada",
    "X-OpenWebUI-User-Id": "4f9f4c3a-0001",
    "X-OpenWebUI-User-Email": "ada@example.com",
    "X-OpenWebUI-User-Role": "user",
}
CHAT = USER | {"X-OpenWebUI-Chat-Id": "1b1e0c2e-chat", "X-OpenWebUI-Message-Id": "m-1"}
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    with running_gateway(tmp_path_factory.mktemp("open-webui"), CONFIG) as process:
        yield process


@pytest.fixture
def webui(gateway):
    with httpx.Client(base_url=gateway.url + "/v1/", headers={"Authorization": f"Bearer {KEY}"}, timeout=30) as client:
        yield client


@pytest.fixture
def row_of(gateway):
    """The row of the request with this answer. The gateway writes rows after answers."""

    def read(answer):
        place = f"{gateway.url}/admin/v1/requests/{answer.headers['x-request-id']}"

        def found():
            told = httpx.get(place, headers={"Authorization": f"Bearer {ADMIN}"})
            return None if told.status_code == 404 else told.raise_for_status().json()

        return eventually(found)

    return read


def chunks(answer):
    lines = [line for line in answer.iter_lines() if line]
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def test_the_list_of_models(webui):
    listed = webui.get("models", headers=USER).raise_for_status().json()
    # `merge_models_lists` reads `data`, and an id of each.
    assert "demo/chat" in [model["id"] for model in listed["data"]]
    assert "error" not in listed


def test_a_streamed_chat_is_that_users(webui, row_of):
    body = {
        "stream": True,
        "model": "demo/chat",
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}],
        "stream_options": {"include_usage": True},
        "temperature": 0.8,
        "max_tokens": 64,
    }
    headers = CHAT | {"Content-Type": "application/json"}
    with webui.stream("POST", "chat/completions", content=json.dumps(body), headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        told = chunks(answer)
    text = "".join(choice["delta"].get("content") or "" for chunk in told for choice in chunk["choices"])
    assert text and told[-1]["usage"]["total_tokens"] > 0
    row = row_of(answer)
    assert (row["end_user"], row["status"], row["surface"]) == (USER["X-OpenWebUI-User-Id"], "ok", "chat")


def test_the_title_of_a_chat(webui):
    """Background tasks are plain chats. Their `max_completion_tokens` becomes `max_tokens` for servers that are not OpenAI's."""
    body = {"model": "demo/chat", "messages": [{"role": "user", "content": "Name this chat."}], "stream": False, "max_tokens": 1000}
    told = webui.post("chat/completions", json=body, headers=CHAT).raise_for_status().json()
    assert told["choices"][0]["message"]["content"]


def test_tools_and_their_results_of_several_parts(webui):
    parameters = {"type": "object", "properties": {"query": {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "search_web", "description": "Search", "parameters": parameters}}
    asked = {"model": "demo/chat", "messages": [{"role": "user", "content": "search web for rust"}], "tools": [tool], "stream": True}
    with webui.stream("POST", "chat/completions", json=asked, headers=CHAT) as answer:
        deltas = [choice["delta"] for chunk in chunks(answer) for choice in chunk["choices"]]
    calls = [call for delta in deltas for call in delta.get("tool_calls") or []]
    assert calls[0]["index"] == 0 and calls[0]["function"]["name"] == "search_web"
    call = {"id": calls[0]["id"], "index": 0, "type": "function", "function": {"name": "search_web", "arguments": "{}"}}
    # The page keeps the member `index` of the stream in its history, and an empty text beside the calls.
    said = {"role": "assistant", "content": "", "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": call["id"], "content": "found it"}
    more = {**asked, "stream": False, "messages": [*asked["messages"], said, result]}
    told = webui.post("chat/completions", json=more, headers=CHAT).raise_for_status().json()
    assert told["choices"][0]["finish_reason"] == "stop"


def test_responses(webui):
    said = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]}]
    body = {"model": "demo/chat", "input": said, "instructions": "Be kind.", "stream": True}
    with webui.stream("POST", "responses", json=body, headers=CHAT) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [line.removeprefix("event: ") for line in answer.iter_lines() if line.startswith("event: ")]
    assert (events[0], events[-1]) == ("response.created", "response.completed")


def test_embeddings_of_documents(webui, row_of):
    body = {"input": ["One text.", "Another text."], "model": "demo/embed"}
    answer = webui.post("embeddings", json=body, headers=USER).raise_for_status()
    vectors = [item["embedding"] for item in answer.json()["data"]]
    assert len(vectors) == 2 and all(isinstance(number, float) for number in vectors[0])
    assert row_of(answer)["end_user"] == USER["X-OpenWebUI-User-Id"]


def test_the_external_reranker(webui, row_of):
    documents = ["Bananas are yellow.", "Paris is the capital of France."]
    body = {"model": "demo/rerank", "query": "capital of France", "documents": documents, "top_n": len(documents)}
    answer = webui.post("rerank", json=body, headers=USER).raise_for_status()
    results = sorted(answer.json()["results"], key=lambda rank: rank["index"])
    assert [rank["index"] for rank in results] == [0, 1]
    assert results[1]["relevance_score"] > results[0]["relevance_score"]
    row = row_of(answer)
    assert (row["surface"], row["end_user"]) == ("rerank", USER["X-OpenWebUI-User-Id"])


def test_speech(webui):
    body = {"input": "Read this aloud.", "voice": "alloy", "model": "demo/speech"}
    told = webui.post("audio/speech", json=body, headers=USER).raise_for_status()
    assert re.match(r"audio/", told.headers["content-type"]) and len(told.content) > 100


def test_a_transcription(webui):
    """The fields come in this order: the model, the language, and the file without a type."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(16000)
        sound.writeframes(bytes(32000))
    form = [("model", (None, "demo/transcribe")), ("language", (None, "en")), ("file", ("recording.wav", file.getvalue()))]
    told = webui.post("audio/transcriptions", files=form, headers=USER).raise_for_status().json()
    assert isinstance(told["text"], str)


def test_images(webui, row_of):
    body = {"model": "demo/images", "prompt": "a cat", "n": 1, "size": "512x512", "response_format": "b64_json"}
    told = webui.post("images/generations", json=body, headers=USER).raise_for_status().json()
    assert base64.b64decode(told["data"][0]["b64_json"]).startswith(b"\x89PNG")
    form = {"model": "demo/images", "prompt": "a hat", "n": "1", "size": "512x512", "response_format": "b64_json"}
    for field in ("image", "image[]"):
        files = [(field, ("cat.png", PIXEL, "image/png"))]
        answer = webui.post("images/edits", data=form, files=files, headers=USER).raise_for_status()
        assert base64.b64decode(answer.json()["data"][0]["b64_json"]).startswith(b"\x89PNG")
        row = row_of(answer)
        assert (row["surface"], row["end_user"]) == ("images", USER["X-OpenWebUI-User-Id"])


def test_a_refusal_is_json_with_its_status(webui):
    """Open WebUI shows `error.message`."""
    body = {"model": "demo/nothing", "messages": [{"role": "user", "content": "Hello"}], "stream": True}
    told = webui.post("chat/completions", json=body, headers=CHAT)
    assert (told.status_code, told.headers["content-type"]) == (404, "application/json")
    assert "demo/nothing" in told.json()["error"]["message"]
