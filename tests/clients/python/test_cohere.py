"""Cohere's own Python package as the other end: its types check every request and write every answer, and its client
reads the same server that the gateway does."""

import json

import cohere
import openai
import pytest
from cohere.core.api_error import ApiError
from cohere.types import EmbeddingsByTypeEmbedResponse
from cohere.v2.raw_client import RawV2Client
from pydantic import BaseModel
from upstreams import (
    HELLO,
    IMAGE,
    STREAMED,
    TIME,
    UNTIDY,
    WEATHER,
    Answer,
    ask,
    calls_of,
    check_said,
    function,
    gateway,
    history,
    reasoning_of,
    stream,
)
from vendors.cohere_ import CHAT, EVENT, body_of

# The package uses functions that pydantic has deprecated.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pydantic.PydanticDeprecatedSince20"),
    pytest.mark.usefixtures("no_faults"),
]

MODEL = "command-a-03-2025"
EVENTS = "text/event-stream"

CONFIG = """
[[providers]]
name = "co"
api = "cohere"
base_url = "{url}"
api_key = "co-test-key"

[[models]]
id = "co/command"
upstream_model = "{model}"
pricing = {{ official_input_per_m = 2.5, official_output_per_m = 10.0, cached_input_per_m = 0.25, currency = "USD" }}

[[models]]
id = "co/thinker"
upstream_model = "command-a-reasoning-08-2025"

[[models]]
id = "co/embed"
upstream_model = "embed-v4.0"
category = ["embedding"]
embedding_dimensions = [4, 256, 1536]
"""


@pytest.fixture(scope="module")
def client(server, tmp_path_factory):
    with gateway(tmp_path_factory.mktemp("cohere"), CONFIG.format(url=server.url, model=MODEL)) as running:
        yield running


@pytest.fixture(scope="module")
def theirs(server):
    return cohere.ClientV2("co-test-key", base_url=server.url, max_retries=0)


# --- What the package says of requests and answers ----------------------------------------------------------------


EMBED = body_of(RawV2Client.embed)


def check_chat(request):
    """Checks that the package knows every member and its type."""
    assert (request.method, request.path) == ("POST", "/v2/chat")
    assert request.header("authorization") == "Bearer co-test-key"
    CHAT.model_validate(request.json, extra="forbid")
    return request.json


USAGE = {
    "billed_units": {"input_tokens": 3, "output_tokens": 4},
    "tokens": {"input_tokens": 70, "output_tokens": 12},
    "cached_tokens": 20,
}


def whole(finish="COMPLETE", **message):
    body = {"id": "co-1", "finish_reason": finish, "message": {"role": "assistant", **message}, "usage": USAGE}
    return cohere.V2ChatResponse.model_validate(body, extra="forbid").json().encode()


def event(kind, **more):
    body = EVENT.validate_python({"type": kind, **more}, extra="forbid").json()
    assert json.loads(body)["type"] == kind
    return f"event: {kind}\ndata: {body}\n\n".encode()


def message(**what):
    return {"message": what}


START = event("message-start", id="co-1", delta=message(role="assistant"))


def end(finish="COMPLETE", usage=USAGE):
    return event("message-end", id="co-1", delta={"finish_reason": finish, "usage": usage})


def texts(*pieces, kind="text", index=0):
    yield event("content-start", index=index, delta=message(content={"type": kind, kind: ""}))
    for piece in pieces:
        yield event("content-delta", index=index, delta=message(content={kind: piece}))
    yield event("content-end", index=index)


def call(index, id_, name, *pieces):
    head = {"id": id_, "type": "function", "function": {"name": name, "arguments": ""}}
    yield event("tool-call-start", index=index, delta=message(tool_calls=head))
    for piece in pieces:
        yield event("tool-call-delta", index=index, delta=message(tool_calls={"function": {"arguments": piece}}))
    yield event("tool-call-end", index=index)


def answers(plain, events):
    """Answers as the request asks, once it has been checked."""
    events = list(events)

    def answer(request):
        return stream(events, EVENTS) if check_chat(request).get("stream") else Answer(plain)

    return answer


TEXT = [START, *texts("Grüße, ", '👍 "you"\n'), end()]
SOURCES = [{"type": "document", "id": "doc", "document": {"title": "T"}}]
CITED = [
    START,
    *list(texts("Grüße, ", '👍 "you"\n'))[:-1],
    event("citation-start", index=0, delta=message(citations={"start": 0, "end": 5, "text": "Grüße", "sources": SOURCES})),
    event("citation-end", index=0),
    event("content-end", index=0),
    end(),
]
TOOLS = [
    START,
    event("tool-plan-delta", delta=message(tool_plan="I will ")),
    event("tool-plan-delta", delta=message(tool_plan="look.")),
    *call(0, "get_weather_a1", "get_weather", '{"city": "Zür', 'ich", "days": 2}'),
    *call(1, "now_b2", "now"),
    end("TOOL_CALL"),
]
CALLS = [
    {"id": "get_weather_a1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Zürich", "days": 2}'}},
    {"id": "now_b2", "type": "function", "function": {"name": "now", "arguments": "{}"}},
]


# --- Chat -------------------------------------------------------------------------------------------------------


@STREAMED
def test_a_chat(server, client, theirs, streamed):
    server.reset(answers(whole(content=[{"type": "text", "text": "Grüße, "}, {"type": "text", "text": '👍 "you"\n'}]), TEXT))
    said = theirs.chat(model=MODEL, messages=HELLO)
    text = "".join(part.text for part in said.message.content)
    answer = ask(
        client,
        streamed,
        model="co/command",
        messages=HELLO,
        max_tokens=50,
        temperature=0.5,
        top_p=0.9,
        stop=["END"],
        seed=7,
        frequency_penalty=0.5,
        presence_penalty=0.25,
    )
    sent = server.last.json
    assert answer.choices[0].message.content == text == 'Grüße, 👍 "you"\n'
    assert answer.choices[0].finish_reason == "stop"
    usage = answer.usage
    # The tokens of the whole prompt; the billed units are another count.
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (70, 12, 82)
    assert usage.prompt_tokens_details.cached_tokens == 20
    assert usage.cost_usd == pytest.approx((50 * 2.5 + 20 * 0.25 + 12 * 10.0) / 1e6)
    assert sent["model"] == MODEL and bool(sent.get("stream")) is streamed
    assert [(turn["role"], text_of(turn)) for turn in sent["messages"]] == [
        ("system", "Be kind."),
        ("user", "Hello there"),
    ]
    options = {key: value for key, value in sent.items() if key not in ("model", "messages", "stream")}
    assert options == {
        "max_tokens": 50,
        "temperature": 0.5,
        "p": 0.9,
        "stop_sequences": ["END"],
        "seed": 7,
        "frequency_penalty": 0.5,
        "presence_penalty": 0.25,
    }


def text_of(turn):
    content = turn.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


@STREAMED
@pytest.mark.parametrize(
    ("reason", "finish"), [("COMPLETE", "stop"), ("STOP_SEQUENCE", "stop"), ("MAX_TOKENS", "length")]
)
def test_finish_reasons(server, client, streamed, reason, finish):
    plain = whole(reason, content=[{"type": "text", "text": "Some"}])
    server.reset(answers(plain, [START, *texts("Some"), end(reason)]))
    if streamed:
        chunks = list(client.chat.completions.create(model="co/command", messages=HELLO, stream=True))
        assert chunks[-1].choices[0].finish_reason == finish
    else:
        answer = client.chat.completions.create(model="co/command", messages=HELLO)
        assert answer.choices[0].finish_reason == finish


@STREAMED
def test_tools_their_results_and_an_answer(server, client, theirs, streamed):
    server.reset(answers(whole("TOOL_CALL", tool_plan="I will look.", tool_calls=CALLS), TOOLS))
    said = theirs.chat(model=MODEL, messages=HELLO)
    wanted = [(made.function.name, json.loads(made.function.arguments)) for made in said.message.tool_calls]
    request = {
        "model": "co/command",
        "tools": [WEATHER, TIME, function("now")],
        "messages": [{"role": "user", "content": "Weather? Time?"}],
    }
    choice = ask(client, streamed, **request).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert calls_of(choice.message) == wanted
    assert [made.id for made in choice.message.tool_calls] == ["get_weather_a1", "now_b2"]
    assert server.last.json["tools"][0]["function"]["parameters"] == WEATHER["function"]["parameters"]

    server.reset(answers(whole(content=[{"type": "text", "text": "Sunny."}]), [START, *texts("Sunny."), end()]))
    request["messages"] += [
        history(choice.message),
        {"role": "tool", "tool_call_id": "get_weather_a1", "content": "sunny"},
        {"role": "tool", "tool_call_id": "now_b2", "content": "12:00"},
    ]
    answer = ask(client, streamed, **request)
    assert answer.choices[0].message.content == "Sunny."
    user, assistant, *results = server.last.json["messages"]
    made = [(each["id"], each["function"]["name"], json.loads(each["function"]["arguments"])) for each in assistant["tool_calls"]]
    assert made == [(id_, *each) for id_, each in zip(("get_weather_a1", "now_b2"), wanted)]
    told = []
    for each in results:
        assert each["role"] == "tool"
        content = each["content"]
        told.append((each["tool_call_id"], content if isinstance(content, str) else json.dumps(content)))
    assert [id_ for id_, _ in told] == ["get_weather_a1", "now_b2"]
    assert "sunny" in told[0][1] and "12:00" in told[1][1]


@pytest.mark.parametrize(
    ("choice", "sent", "left"),
    [
        ("auto", None, {"get_weather", "get_time"}),
        ("none", "NONE", None),
        ("required", "REQUIRED", {"get_weather", "get_time"}),
        ({"type": "function", "function": {"name": "get_time"}}, "REQUIRED", {"get_time"}),
    ],
    ids=["auto", "none", "required", "named"],
)
def test_tool_choice(server, client, choice, sent, left):
    server.reset(answers(whole(content=[{"type": "text", "text": "Fine."}]), TEXT))
    client.chat.completions.create(model="co/command", messages=HELLO, tools=[WEATHER, TIME], tool_choice=choice)
    body = server.last.json
    assert body.get("tool_choice") == sent
    assert left is None or {tool["function"]["name"] for tool in body["tools"]} == left


def test_nothing_of_an_untidy_history_is_lost(server, client):
    server.reset(answers(whole(content=[{"type": "text", "text": "Fine."}]), TEXT))
    client.chat.completions.create(model="co/command", messages=UNTIDY, tools=[WEATHER, TIME])
    sent = server.last.json["messages"]
    check_said(json.dumps(sent, ensure_ascii=False))
    made = [each["id"] for turn in sent for each in turn.get("tool_calls") or []]
    assert [turn["tool_call_id"] for turn in sent if turn["role"] == "tool"] == made


def test_an_image(server, client):
    server.reset(answers(whole(content=[{"type": "text", "text": "A red dot."}]), TEXT))
    content = [{"type": "text", "text": "What is this?"}, IMAGE]
    client.chat.completions.create(model="co/command", messages=[{"role": "user", "content": content}])
    parts = server.last.json["messages"][0]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url"]
    assert parts[1]["image_url"]["url"] == IMAGE["image_url"]["url"]


@STREAMED
def test_thoughts(server, client, theirs, streamed):
    plain = whole(content=[{"type": "thinking", "thinking": "Hm, let me see."}, {"type": "text", "text": "42"}])
    events = [START, *texts("Hm, let ", "me see.", kind="thinking"), *texts("42", index=1), end()]
    server.reset(answers(plain, events))
    said = theirs.chat(model=MODEL, messages=HELLO)
    answer = ask(client, streamed, model="co/thinker", messages=HELLO, reasoning_effort="high")
    assert reasoning_of(answer.choices[0].message) == said.message.content[0].thinking == "Hm, let me see."
    assert answer.choices[0].message.content == "42"
    assert server.last.json["thinking"]["type"] == "enabled"


class City(BaseModel):
    name: str
    people: int


@STREAMED
def test_structured_output(server, client, streamed):
    found = '{"name": "Bern", "people": 134000}'
    events = [START, *texts(found[:10], found[10:]), end()]
    server.reset(answers(whole(content=[{"type": "text", "text": found}]), events))
    request = {"model": "co/command", "messages": HELLO, "response_format": City}
    if streamed:
        with client.chat.completions.stream(**request) as running:
            parsed = running.until_done().get_final_completion().choices[0].message.parsed
    else:
        parsed = client.chat.completions.parse(**request).choices[0].message.parsed
    assert parsed == City(name="Bern", people=134000)
    sent = server.last.json["response_format"]
    assert sent["type"] == "json_object" and set(sent["json_schema"]["properties"]) == {"name", "people"}


# --- Streams and errors -------------------------------------------------------------------------------------------


def their_reading(theirs):
    """The result of a stream in the package's client."""
    text, calls = "", []
    for each in theirs.chat_stream(model=MODEL, messages=HELLO):
        if each.type == "content-delta":
            text += each.delta.message.content.text
        elif each.type == "tool-call-start":
            made = each.delta.message.tool_calls
            calls.append([made.id, made.function.name, made.function.arguments])
        elif each.type == "tool-call-delta":
            calls[-1][2] += each.delta.message.tool_calls.function.arguments
    return text, [(id_, name, json.loads(arguments or "{}")) for id_, name, arguments in calls]


@pytest.mark.parametrize("end_", [b"\n", b"\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("size", [1, 3, 11, 1 << 20])
@pytest.mark.parametrize("script", [TEXT, CITED, TOOLS], ids=["text", "cited", "tools"])
def test_a_stream_however_it_is_cut(server, client, theirs, script, size, end_):
    everything = b"".join(script).replace(b"\n", end_)
    pieces = [everything[at : at + size] for at in range(0, len(everything), size)]
    server.reset(stream(pieces, EVENTS))
    text, calls = their_reading(theirs)
    answer = ask(client, True, model="co/command", messages=HELLO, tools=[WEATHER, function("now")])
    message_ = answer.choices[0].message
    if script is not TOOLS:  # the plan may be part of the text or of the reasoning
        assert message_.content == text
    made = [(each.id, each.function.name, json.loads(each.function.arguments)) for each in message_.tool_calls or []]
    assert made == calls
    assert answer.choices[0].finish_reason == ("tool_calls" if script is TOOLS else "stop")
    assert answer.usage.total_tokens == 82


@pytest.mark.parametrize("breaks", [False, True])
@pytest.mark.parametrize("kept", [1, 3, 5])
def test_a_stream_that_ends_early_never_looks_complete(server, client, kept, breaks):
    server.reset(stream([*TEXT[:kept], TEXT[kept][:20]] if kept < len(TEXT) else TEXT[:-1], EVENTS, breaks=breaks))
    with pytest.raises(openai.APIError):
        for chunk in client.chat.completions.create(model="co/command", messages=HELLO, stream=True):
            assert chunk.choices[0].finish_reason is None


@pytest.mark.parametrize("reason", ["ERROR", "TIMEOUT"])
@STREAMED
def test_an_answer_that_failed(server, client, reason, streamed):
    plain = whole(reason, content=[{"type": "text", "text": "Half"}])
    server.reset(answers(plain, [START, *texts("Half"), end(reason)]))
    with pytest.raises(openai.APIError):
        ask(client, streamed, model="co/command", messages=HELLO)
    server.check()


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, openai.BadRequestError, "invalid_request"),
        (401, openai.InternalServerError, "upstream_auth_error"),
        (422, openai.BadRequestError, "invalid_request"),
        (429, openai.RateLimitError, "upstream_rate_limited"),
        (500, openai.InternalServerError, "upstream_error"),
        (503, openai.InternalServerError, "upstream_overloaded"),
    ],
)
@STREAMED
def test_errors(server, client, theirs, status, kind, code, streamed):
    server.reset(Answer({"id": "e1", "message": "No, not today."}, status))
    with pytest.raises(ApiError):
        theirs.chat(model=MODEL, messages=HELLO)
    with pytest.raises(kind) as caught:
        ask(client, streamed, model="co/command", messages=HELLO)
    assert caught.value.code == code


# --- Embeddings ---------------------------------------------------------------------------------------------------


def test_embeddings(server, client, theirs):
    def answer(request):
        assert request.path == "/v2/embed"
        sent = request.json
        EMBED.model_validate(sent, extra="forbid")
        vectors = [[float(len(text)), 0.25, -1.5, 0.5] for text in sent["texts"]]
        body = {
            "id": "e1",
            "response_type": "embeddings_by_type",
            "embeddings": {"float": vectors},
            "texts": sent["texts"],
            "meta": {"billed_units": {"input_tokens": 5.0}},
        }
        EmbeddingsByTypeEmbedResponse.model_validate(body)
        return Answer(body)

    server.reset(answer)
    said = theirs.embed(
        model="embed-v4.0", input_type="search_document", texts=["One", "Grüße"], embedding_types=["float"]
    )
    given = client.embeddings.create(model="co/embed", input=["One", "Grüße"], dimensions=4, encoding_format="float")
    server.check()
    assert [vector.embedding for vector in given.data] == said.embeddings.float_
    assert given.usage.prompt_tokens == 5
    assert server.last.json["output_dimension"] == 4
