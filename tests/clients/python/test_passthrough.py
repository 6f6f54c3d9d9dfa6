"""The vendors' own packages on pass-through routes: each talks to a route as to its vendor, and the tokens are charged."""

import json
import time
from datetime import UTC, datetime

import anthropic
import botocore.session
import cohere
import openai
import pytest
from botocore.config import Config
from eventstream import CONTENT_TYPE, event
from google import genai
from google.genai import types
from mistralai.client import Mistral
from processes import running_gateway
from upstreams import KEY, KEYS, SERVER, Answer, stream, upstream

pytestmark = [
    pytest.mark.filterwarnings("ignore::pydantic.PydanticDeprecatedSince20"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

ADMIN = "sk-passthrough-admin-key"
SECRET = "vendor-secret-key"
PRICED = "pricing = { official_input_per_m = 1.0, official_output_per_m = 10.0 }\n"


def provider(name, api, url, model, more=""):
    return f"""
[[providers]]
name = "{name}"
api = "{api}"
base_url = "{url}"
api_key = "{SECRET}"
{more}
[[models]]
id = "{name}/m"
upstream_model = "{model}"
{PRICED}
[[passthrough]]
path = "/{name}"
provider = "{name}"
"""


@pytest.fixture(scope="module")
def vendor():
    with upstream() as server:
        yield server


@pytest.fixture(scope="module")
def url(vendor, tmp_path_factory):
    config = [
        SERVER,
        KEYS,
        f'[[keys]]\nname = "admin"\nkey = "{ADMIN}"\nrole = "admin"\n',
        provider("ant", "anthropic", vendor.url, "claude-x") + 'usage = "anthropic"\n',
        provider("gem", "gemini", vendor.url, "gemini-x") + 'usage = "gemini"\n',
        provider("bed", "bedrock", vendor.url, "amazon.nova-x-v1:0", 'region = "eu-west-1"') + 'usage = "bedrock"\n',
        provider("mis", "mistral", vendor.url + "/v1", "mistral-x") + 'usage = "openai"\n',
        provider("co", "cohere", vendor.url, "command-x") + "cost_per_request = 0.002\n",
        provider("oai", "openai", vendor.url + "/v1", "sora-x") + 'usage = "openai"\ncost_per_request = 0.4\n',
        f'[[passthrough]]\npath = "/byok"\ntarget = "{vendor.url}"\ncredential = "forward"\n',
    ]
    with running_gateway(tmp_path_factory.mktemp("passthrough"), "".join(config)) as process:
        yield process.url


@pytest.fixture(autouse=True)
def fresh(vendor):
    vendor.reset(Answer(status=500))
    newest.since = datetime.now(UTC).isoformat()


def newest(url):
    """The newest row of the request log, when it is there."""
    client = openai.OpenAI(base_url=url + "/v1", api_key=ADMIN)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        rows = client.get("../admin/v1/requests?limit=1", cast_to=object)["data"]
        if rows and rows[0]["request_id"] != newest.last and rows[0]["at"] >= newest.since:
            newest.last = rows[0]["request_id"]
            return rows[0]
        time.sleep(0.02)
    raise AssertionError("no row")


newest.last = None


def events(documents, named=False):
    for document in documents:
        name = f"event: {document['type']}\n" if named else ""
        yield f"{name}data: {json.dumps(document)}\n\n".encode()


def no_gateway_key(request):
    assert KEY not in request.path
    assert not any(KEY in value for _, value in request.headers)


def test_anthropic(vendor, url):
    client = anthropic.Anthropic(base_url=url + "/ant", api_key=KEY, max_retries=0)
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "stop_reason": "end_turn"}
    message |= {"stop_sequence": None, "content": [{"type": "text", "text": "Hi"}]}
    vendor.reset(Answer({**message, "usage": {"input_tokens": 1000, "output_tokens": 100}}))
    ask = {"model": "claude-x", "max_tokens": 50, "messages": [{"role": "user", "content": "Hello"}]}
    assert client.messages.create(**ask).content[0].text == "Hi"
    sent = vendor.last
    assert sent.path == "/v1/messages"
    assert sent.header("x-api-key") == SECRET and sent.header("anthropic-version")
    no_gateway_key(sent)
    row = newest(url)
    assert (row["cost_usd"], row["model"], row["surface"]) == (0.002, "ant/m", "passthrough")
    start = {**message, "content": [], "stop_reason": None, "usage": {"input_tokens": 2000, "output_tokens": 1}}
    pieces = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 200}},
        {"type": "message_stop"},
    ]
    vendor.reset(stream(events(pieces, named=True), "text/event-stream"))
    with client.messages.stream(**ask) as answer:
        assert "".join(answer.text_stream) == "Hi"
    assert newest(url)["cost_usd"] == 0.004
    vendor.reset(Answer({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, status=529))
    with pytest.raises(anthropic.APIStatusError) as error:
        client.messages.create(**ask)
    assert error.value.status_code == 529 and error.value.body["error"]["message"] == "busy"


def test_gemini(vendor, url):
    options = types.HttpOptions(base_url=url + "/gem")
    client = genai.Client(api_key=KEY, vertexai=False, http_options=options)
    answer = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]}
    answer |= {"usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 100, "totalTokenCount": 1100}}
    vendor.reset(Answer(answer))
    assert client.models.generate_content(model="gemini-x", contents="Hello").text == "Hi"
    sent = vendor.last
    assert sent.path.endswith("/models/gemini-x:generateContent")
    assert sent.header("x-goog-api-key") == SECRET
    no_gateway_key(sent)
    assert newest(url)["cost_usd"] == 0.002
    vendor.reset(stream(events([answer]), "text/event-stream"))
    chunks = client.models.generate_content_stream(model="gemini-x", contents="Hello")
    assert "".join(chunk.text for chunk in chunks) == "Hi"
    row = newest(url)
    assert (row["cost_usd"], row["requested_model"], row["stream"]) == (0.002, "gemini-x", True)


def test_bedrock(vendor, url, monkeypatch):
    # A bearer token wants HTTPS, so the gateway key stands beside a signature, which the gateway replaces.
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    config = Config(retries={"total_max_attempts": 1})
    client = botocore.session.get_session().create_client(
        "bedrock-runtime", region_name="eu-west-1", endpoint_url=url + "/bed", config=config
    )
    client.meta.events.register("before-send", lambda request, **_: request.headers.update({"x-gateway-key": KEY}))
    usage = {"inputTokens": 1000, "outputTokens": 100, "totalTokens": 1100}
    said = {"message": {"role": "assistant", "content": [{"text": "Hi"}]}}
    vendor.reset(Answer({"output": said, "stopReason": "end_turn", "usage": usage, "metrics": {"latencyMs": 1}}))
    ask = {"modelId": "amazon.nova-x-v1:0", "messages": [{"role": "user", "content": [{"text": "Hello"}]}]}
    answer = client.converse(**ask)
    assert answer["output"]["message"]["content"][0]["text"] == "Hi"
    sent = vendor.last
    assert sent.path == "/model/amazon.nova-x-v1%3A0/converse"
    assert sent.header("authorization") == f"Bearer {SECRET}"
    assert newest(url)["cost_usd"] == 0.002
    frames = [
        event("messageStart", **{"role": "assistant"}),
        event("contentBlockDelta", **{"contentBlockIndex": 0, "delta": {"text": "Hi"}}),
        event("contentBlockStop", **{"contentBlockIndex": 0}),
        event("messageStop", **{"stopReason": "end_turn"}),
        event("metadata", **{"usage": usage, "metrics": {"latencyMs": 1}}),
    ]
    vendor.reset(stream(frames, CONTENT_TYPE))
    pieces = list(client.converse_stream(**ask)["stream"])
    deltas = [piece["contentBlockDelta"] for piece in pieces if "contentBlockDelta" in piece]
    assert [delta["delta"]["text"] for delta in deltas] == ["Hi"]
    assert newest(url)["cost_usd"] == 0.002
    kinds = {"content-type": "application/json"}
    counts = {"x-amzn-bedrock-input-token-count": "1000", "x-amzn-bedrock-output-token-count": "100"}
    vendor.reset(Answer({"results": []}, headers=kinds | counts))
    client.invoke_model(modelId="amazon.nova-x-v1:0", body=b'{"inputText": "Hello"}')["body"].read()
    assert newest(url)["cost_usd"] == 0.002


def test_mistral(vendor, url):
    client = Mistral(api_key=KEY, server_url=url + "/mis")
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}
    answer = {"id": "1", "object": "chat.completion", "created": 1, "model": "mistral-x"}
    vendor.reset(Answer({**answer, "choices": [choice], "usage": usage}))
    ask = {"model": "mistral-x", "messages": [{"role": "user", "content": "Hello"}]}
    told = client.chat.complete(**ask)
    assert told.choices[0].message.content == "Hi"
    assert vendor.last.header("authorization") == f"Bearer {SECRET}"
    assert newest(url)["cost_usd"] == 0.002
    pages = [{"index": 0, "markdown": "# Hi", "images": [], "dimensions": {"dpi": 1, "height": 1, "width": 1}}]
    vendor.reset(Answer({"pages": pages, "model": "ocr-x", "usage_info": {"pages_processed": 1, "doc_size_bytes": 3}}))
    document = {"type": "document_url", "document_url": "https://example.com/a.pdf"}
    assert client.ocr.process(model="ocr-x", document=document).pages[0].markdown == "# Hi"
    row = newest(url)
    assert (row["cost_usd"], row["unpriced"], row["requested_model"]) == (None, True, "ocr-x")


def test_cohere(vendor, url):
    client = cohere.ClientV2(api_key=KEY, base_url=url + "/co")
    billed = {"billed_units": {"search_units": 1}}
    vendor.reset(Answer({"id": "1", "results": [{"index": 1, "relevance_score": 0.9}], "meta": billed}))
    told = client.rerank(model="rerank-v3.5", query="a", documents=["b", "c"])
    assert told.results[0].index == 1
    assert (vendor.last.path, vendor.last.header("authorization")) == ("/v2/rerank", f"Bearer {SECRET}")
    assert newest(url)["cost_usd"] == 0.002


def test_openai_videos_and_uploads(vendor, url):
    client = openai.OpenAI(base_url=url + "/oai", api_key=KEY, max_retries=0)
    video = {"id": "video_1", "object": "video", "model": "sora-x", "status": "queued", "progress": 0, "created_at": 1}
    video |= {"seconds": "4", "size": "720x1280"}
    vendor.reset(Answer(video))
    assert client.videos.create(model="sora-x", prompt="a cat").id == "video_1"
    assert vendor.last.path == "/v1/videos"
    assert newest(url)["cost_usd"] == 0.4
    vendor.reset(Answer(bytes(range(256)) * 1000, headers={"content-type": "video/mp4"}))
    assert client.videos.download_content("video_1").read() == bytes(range(256)) * 1000
    file = {"id": "file_1", "object": "file", "bytes": 3, "created_at": 1, "filename": "a", "purpose": "batch"}
    vendor.reset(Answer({**file, "status": "processed"}))
    content = b"x" * 300_000
    assert client.files.create(file=("a.jsonl", content), purpose="batch").id == "file_1"
    assert content in vendor.last.body


def test_own_credential(vendor, url):
    client = anthropic.Anthropic(base_url=url + "/byok", api_key="my-own", default_headers={"x-gateway-key": KEY})
    vendor.reset(Answer({"data": [], "has_more": False, "first_id": None, "last_id": None}))
    assert client.models.list().data == []
    assert vendor.last.header("authorization") == "Bearer my-own"
    no_gateway_key(vendor.last)
    row = newest(url)
    assert (row["cost_usd"], row["unpriced"]) == (None, True)
