"""Google's own Python SDK, as its users use it, on models of other dialects."""

import asyncio
import json

import pytest
from google import genai
from google.genai import errors, types
from processes import running_gateway
from upstreams import SERVER, Answer, upstream

KEY = "sk-google-test-key"
MODEL = "demo/chat"
CONFIG = """
[routing]
retries = 0

[[keys]]
name = "all"
key = "{key}"

[[providers]]
name = "demo"
api = "demo"

[[providers]]
name = "chatty"
api = "openai"
base_url = "{url}/v1"
api_key = "upstream-key"

[[models]]
id = "chatty/model"
category = ["chat"]
pricing = {{ official_input_per_m = 1.0, official_output_per_m = 2.0 }}
"""


@pytest.fixture(scope="module")
def server():
    with upstream() as process:
        yield process


@pytest.fixture(scope="module")
def url(tmp_path_factory, server):
    config = SERVER + CONFIG.format(key=KEY, url=server.url)
    with running_gateway(tmp_path_factory.mktemp("google"), config) as process:
        yield process.url


def connect(url, key=KEY, **options):
    return genai.Client(api_key=key, http_options=types.HttpOptions(base_url=url, **options))


@pytest.fixture(scope="module")
def client(url):
    return connect(url)


@pytest.mark.parametrize("version", ["v1beta", "v1"])
def test_an_answer_has_text_and_usage(url, version):
    # A client that nobody holds closes its connections.
    client = connect(url, api_version=version)
    answer = client.models.generate_content(model=MODEL, contents="Hello there")
    assert "Hello there" in answer.text
    assert answer.candidates[0].finish_reason == types.FinishReason.STOP
    usage = answer.usage_metadata
    assert usage.total_token_count == usage.prompt_token_count + usage.candidates_token_count
    assert answer.sdk_http_response.headers["x-gateway-model"] == MODEL
    # Google's types refuse members that they do not know.
    raw = json.loads(types.GenerateContentResponse.model_dump_json(answer, exclude={"sdk_http_response"}))
    types.GenerateContentResponse.model_validate(raw)


def test_a_stream_has_the_same_text(client):
    whole = client.models.generate_content(model=MODEL, contents="Hello there")
    chunks = list(client.models.generate_content_stream(model=MODEL, contents="Hello there"))
    assert "".join(chunk.text or "" for chunk in chunks) == whole.text
    assert chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP
    assert chunks[-1].usage_metadata == whole.usage_metadata


def test_an_asynchronous_stream(url):
    async def run():
        client = connect(url)
        stream = await client.aio.models.generate_content_stream(model=MODEL, contents="Hello there")
        return [chunk.text or "" async for chunk in stream]

    assert "Hello there" in "".join(asyncio.run(run()))


def test_a_chat_of_streams_keeps_its_history(client):
    chat = client.chats.create(model=MODEL)
    for message in ["My name is Ann.", "What is my name?"]:
        assert "".join(chunk.text or "" for chunk in chat.send_message_stream(message))
    assert [content.role for content in chat.get_history(curated=True)].count("user") == 2


def test_a_function_is_called_by_the_sdk(client, server):
    def reply(message, finish):
        choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
        usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
        body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
        return Answer(body=body)

    def get_weather(city: str) -> str:
        """The weather of a city."""
        return f"22 degrees in {city}"

    function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    call = {"id": "call_1", "type": "function", "function": function}
    replies = [reply({"content": None, "tool_calls": [call]}, "tool_calls"), reply({"content": "Warm."}, "stop")]
    server.answer = lambda request: replies.pop(0)
    config = types.GenerateContentConfig(tools=[get_weather])
    answer = client.models.generate_content(model="chatty/model", contents="The weather in Paris?", config=config)
    assert answer.text == "Warm."
    sent = server.last.json["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert "22 degrees in Paris" in sent[2]["content"]
    assert sent[2]["tool_call_id"] == sent[1]["tool_calls"][0]["id"]


def test_an_image_and_a_schema(client):
    image = types.Part.from_bytes(data=b"not read by the demo", mime_type="application/pdf")
    config = types.GenerateContentConfig(
        response_mime_type="application/json",
        response_schema={"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]},
        thinking_config=types.ThinkingConfig(include_thoughts=True),
        safety_settings=[{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        system_instruction="Be brief.",
        temperature=0.5,
        top_k=40,
    )
    assert json.loads(client.models.generate_content(model=MODEL, contents=["Hello"], config=config).text)
    with pytest.raises(errors.ClientError) as failed:
        client.models.generate_content(model="chatty/model", contents=[image], config={"cached_content": "cachedContents/x"})
    assert (failed.value.code, failed.value.status) == (400, "INVALID_ARGUMENT")


def test_tokens_vectors_and_models(client):
    assert client.models.count_tokens(model=MODEL, contents="Hello there").total_tokens > 0
    vectors = client.models.embed_content(model="demo/embed", contents=["one", "two"])
    assert len(vectors.embeddings) == 2 and vectors.embeddings[0].values
    names = [model.name for model in client.models.list(config={"page_size": 2})]
    assert {"models/demo/chat", "models/demo/embed"} <= set(names)
    assert client.models.get(model=MODEL).name == "models/demo/chat"


@pytest.mark.parametrize(
    ("key", "model", "code", "status"),
    [
        ("sk-wrong", MODEL, 401, "UNAUTHENTICATED"),
        (KEY, "demo/none", 404, "NOT_FOUND"),
        (KEY, "demo/error-429", 429, "RESOURCE_EXHAUSTED"),
        (KEY, "demo/error-500", 502, "INTERNAL"),
    ],
)
def test_errors_have_googles_names(url, key, model, code, status):
    client = connect(url, key)
    with pytest.raises(errors.APIError) as failed:
        client.models.generate_content(model=model, contents="Hello")
    assert (failed.value.code, failed.value.status) == (code, status)


def test_a_broken_stream_raises(client):
    seen = []
    with pytest.raises(errors.ServerError) as failed:
        for chunk in client.models.generate_content_stream(model="demo/error-mid", contents="Hello"):
            seen.append(chunk)
    assert failed.value.code == 502
    assert seen and all(chunk.candidates[0].finish_reason is None for chunk in seen)
