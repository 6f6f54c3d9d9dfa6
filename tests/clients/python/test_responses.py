"""`client.responses` of OpenAI's own Python SDK: what is stored, streamed, polled and chained."""

import asyncio
import json

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from processes import running_gateway
from pydantic import BaseModel
from test_anthropic import call, said
from upstreams import SERVER, upstream

KEY = "sk-responses-test-key"
OTHER = "sk-responses-other-key"
TEXT = "Demo answer to: Hello there"
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}
CONFIG = """
[routing]
retries = 0
[routing.breaker]
failures = 10000

[[keys]]
name = "one"
key = "{key}"

[[keys]]
name = "other"
key = "{other}"

[[providers]]
name = "demo"
api = "demo"

[[providers]]
name = "chatty"
api = "openai"
base_url = "{url}/v1"
api_key = "upstream-key"
responses = false

[[models]]
id = "chatty/plain"
"""
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])


class City(BaseModel):
    name: str
    people: int


@pytest.fixture(scope="module")
def scripted():
    with upstream() as process:
        yield process


@pytest.fixture(scope="module")
def url(tmp_path_factory, scripted):
    config = SERVER + CONFIG.format(key=KEY, other=OTHER, url=scripted.url)
    with running_gateway(tmp_path_factory.mktemp("gateway"), config) as process:
        yield process.url + "/v1"


@pytest.fixture(scope="module")
def client(url):
    with OpenAI(base_url=url, api_key=KEY, max_retries=0, timeout=60, _strict_response_validation=True) as client:
        yield client


@pytest.fixture(scope="module")
def stranger(url):
    with OpenAI(base_url=url, api_key=OTHER, max_retries=0) as client:
        yield client


def ask(client, streamed, **request):
    """A response, plain or put together from its stream by the SDK: both must look the same."""
    if not streamed:
        return client.responses.create(**request)
    with client.responses.stream(**request) as events:
        return events.get_final_response()


@STREAMED
def test_create(client, streamed):
    response = ask(client, streamed, model="demo/chat", input="Hello there", instructions="Be kind.")
    assert response.id.startswith("resp_") and response.object == "response"
    assert (response.status, response.error, response.incomplete_details) == ("completed", None, None)
    assert response.output_text == TEXT
    assert response.instructions == "Be kind."
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    assert response.usage.output_tokens_details.reasoning_tokens == 0
    assert response.gateway["model_used"] == "demo/chat"


def test_the_events_of_a_stream(client):
    events = list(client.responses.create(model="demo/chat", input="Hello there", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * 5,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == TEXT
    assert len({event.response.id for event in (events[0], events[1], events[-1])}) == 1
    assert events[-1].response.output_text == TEXT


def test_async(url):
    async def run():
        async with AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
            request = {"model": "demo/chat", "input": "Hello there"}
            whole = await client.responses.create(**request)
            async with client.responses.stream(**request) as events:
                text = "".join([event.delta async for event in events if event.type == "response.output_text.delta"])
                final = await events.get_final_response()
            assert text == final.output_text == whole.output_text == TEXT
            assert (await client.responses.retrieve(whole.id)).output_text == TEXT

    asyncio.run(run())


@STREAMED
def test_tools_in_parallel_and_their_results(client, scripted, streamed):
    calls = [call("a", "get_weather", {"city": "Oslo"}), call("b", "get_weather", {"city": "Rome"})]
    scripted.reset(said({"content": None, "tool_calls": calls}, "tool_calls"))
    first = ask(client, streamed, model="chatty/plain", input="Hello there", tools=[WEATHER])
    assert [(item.type, item.call_id, item.name) for item in first.output] == [
        ("function_call", "call_a", "get_weather"),
        ("function_call", "call_b", "get_weather"),
    ]
    assert [json.loads(item.arguments) for item in first.output] == [{"city": "Oslo"}, {"city": "Rome"}]
    sent = scripted.last.json["tools"][0]["function"]
    assert (sent["name"], sent["strict"]) == ("get_weather", True)

    scripted.reset(said({"content": "Sunny."}, "stop"))
    outputs = [
        {"type": "function_call_output", "call_id": item.call_id, "output": "sunny"} for item in first.output
    ]
    last = ask(
        client,
        streamed,
        model="chatty/plain",
        previous_response_id=first.id,
        input=outputs,
        tools=[WEATHER],
    )
    assert last.output_text == "Sunny."
    sent = scripted.last.json["messages"]
    assert [turn["role"] for turn in sent] == ["user", "assistant", "tool", "tool"]
    assert [entry["id"] for entry in sent[1]["tool_calls"]] == ["call_a", "call_b"]
    assert [turn["tool_call_id"] for turn in sent[2:]] == ["call_a", "call_b"]


def test_a_tool_loop_without_a_store(client):
    turns = [{"role": "user", "content": "get weather in Paris"}]
    request = {"model": "demo/chat", "tools": [WEATHER], "store": False}
    first = client.responses.create(**request, input=turns)
    asked = first.output[-1]
    assert (asked.type, asked.name, set(json.loads(asked.arguments))) == ("function_call", "get_weather", {"city"})
    turns += [*first.output, {"type": "function_call_output", "call_id": asked.call_id, "output": "sunny"}]
    last = client.responses.create(**request, input=turns)
    assert [item.type for item in last.output] == ["message"]


def test_parse(client):
    parsed = client.responses.parse(model="demo/chat", input="A city", text_format=City)
    assert isinstance(parsed.output_parsed, City)
    with client.responses.stream(model="demo/chat", input="A city", text_format=City) as events:
        assert events.get_final_response().output_parsed == parsed.output_parsed


@STREAMED
def test_reasoning(client, scripted, streamed):
    scripted.reset(said({"reasoning_content": "Let me think.", "content": "Four."}, "stop"))
    reasoning = {"effort": "low", "summary": "auto"}
    response = ask(client, streamed, model="chatty/plain", input="2 + 2", reasoning=reasoning)
    assert [item.type for item in response.output] == ["reasoning", "message"]
    thought = response.output[0]
    assert "Let me think." in [part.text for part in [*thought.summary, *(thought.content or [])]]
    assert response.output_text == "Four."
    assert scripted.last.json["reasoning_effort"] == "low"


def test_incomplete(client):
    response = client.responses.create(model="demo/chat", input="Hello there " * 20, max_output_tokens=16)
    assert response.status == "incomplete" and response.incomplete_details.reason == "max_output_tokens"


def finished(client, response):
    """Polls until the response runs no more."""
    while response.status in ("queued", "in_progress"):
        response = client.responses.retrieve(response.id)
    return response


def test_background(client):
    started = client.responses.create(model="demo/chat", input="Hello there", background=True)
    assert (started.status, started.background) == ("queued", True)
    ended = finished(client, started)
    assert (ended.id, ended.status, ended.output_text) == (started.id, "completed", TEXT)


def test_a_cancelled_background_response(client):
    started = client.responses.create(model="demo/silent", input="Hello there", background=True)
    assert client.responses.cancel(started.id).status == "cancelled"
    assert client.responses.retrieve(started.id).status == "cancelled"


def test_retrieve_and_delete(client):
    response = client.responses.create(model="demo/chat", input="Hello there")
    again = client.responses.retrieve(response.id)
    assert again.output == response.output and again.usage == response.usage
    client.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.delete(response.id)


def test_a_replayed_stream(client):
    started = client.responses.create(model="demo/chat", input="Hello there", background=True, stream=True)
    events = list(started)
    again = list(client.responses.retrieve(events[0].response.id, stream=True, starting_after=3))
    assert [(event.type, event.sequence_number) for event in again] == [
        (event.type, event.sequence_number) for event in events[4:]
    ]


def test_input_items(client):
    turns = [{"role": "user", "content": word} for word in ("one", "two", "three")]
    response = client.responses.create(model="demo/chat", input=turns)
    items = list(client.responses.input_items.list(response.id, order="asc"))
    assert [item.content[0].text for item in items] == ["one", "two", "three"]
    # The SDK asks for page after page; the newest item comes first unless told otherwise.
    paged = list(client.responses.input_items.list(response.id, limit=1))
    assert [item.id for item in paged] == [item.id for item in reversed(items)]


def test_a_chain(client, scripted):
    scripted.reset(said({"content": "First."}, "stop"))
    first = client.responses.create(model="chatty/plain", input="one", instructions="Be kind.")
    second = client.responses.create(model="chatty/plain", input="two", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    client.responses.create(model="chatty/plain", input="three", previous_response_id=second.id)
    # Instructions are those of one request and are not inherited.
    assert [(turn["role"], turn["content"]) for turn in scripted.last.json["messages"]] == [
        ("user", "one"),
        ("assistant", "First."),
        ("user", "two"),
        ("assistant", "First."),
        ("user", "three"),
    ]


def test_nothing_is_stored_with_store_false(client):
    response = client.responses.create(model="demo/chat", input="Hello there", store=False)
    assert response.store is False
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="demo/chat", input="Again", previous_response_id=response.id)
    assert (caught.value.code, caught.value.param) == ("previous_response_not_found", "previous_response_id")


def test_the_response_of_another_key_does_not_exist(client, stranger):
    response = client.responses.create(model="demo/chat", input="Hello there")
    for ask_for in (stranger.responses.retrieve, stranger.responses.delete, stranger.responses.input_items.list):
        with pytest.raises(openai.NotFoundError):
            ask_for(response.id)
    with pytest.raises(openai.BadRequestError) as caught:
        stranger.responses.create(model="demo/chat", input="Again", previous_response_id=response.id)
    assert caught.value.code == "previous_response_not_found"
    assert client.responses.retrieve(response.id).output_text == TEXT


def test_input_tokens(client):
    counted = client.responses.input_tokens.count(model="demo/chat", input="Hello there")
    assert counted.object == "response.input_tokens" and counted.input_tokens > 0


@pytest.mark.parametrize(
    ("request_", "kind", "code"),
    [
        ({"temperature": 3}, openai.BadRequestError, "decimal_above_max_value"),
        ({"model": "no/such-model"}, openai.NotFoundError, "model_not_found"),
        ({"model": "demo/error-429"}, openai.RateLimitError, "upstream_rate_limited"),
        ({"model": "demo/error-500"}, openai.InternalServerError, "upstream_error"),
        ({"model": "demo/error-503"}, openai.InternalServerError, "upstream_overloaded"),
        ({"model": "demo/panic"}, openai.InternalServerError, "internal_error"),
    ],
)
def test_error_classes(client, request_, kind, code):
    with pytest.raises(openai.APIStatusError) as caught:
        client.responses.create(**{"model": "demo/chat", "input": "Hello there", **request_})
    assert (type(caught.value), caught.value.code) == (kind, code)
    assert caught.value.request_id.startswith("req_")


def test_a_wrong_key(url):
    with pytest.raises(openai.AuthenticationError) as caught:
        OpenAI(base_url=url, api_key="wrong", max_retries=0).responses.create(model="demo/chat", input="Hello")
    assert caught.value.code == "invalid_api_key"


@pytest.mark.parametrize("model", ["demo/cut", "demo/truncate", "demo/error-mid"])
def test_a_broken_stream_never_looks_complete(client, model):
    seen = []
    with pytest.raises(openai.APIError):
        for event in client.responses.create(model=model, input="Hello there", stream=True):
            seen.append(event.type)
    assert seen[0] == "response.created" and "response.completed" not in seen
