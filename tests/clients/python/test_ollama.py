"""Ollama's own Python package as the other end: its types check every request and write every answer, and its client
reads the same server that the gateway does."""

import base64
import json

import ollama
import openai
import pytest
from pydantic import BaseModel
from upstreams import (
    HELLO,
    IMAGE,
    PIXEL,
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

pytestmark = pytest.mark.usefixtures("no_faults")

MODEL = "llama3.2:3b"
LINES = "application/x-ndjson"

CONFIG = """
[[providers]]
name = "local"
api = "ollama"
base_url = "{url}"

[[providers]]
name = "small"
api = "ollama"
base_url = "{url}"
num_ctx_max = 4096

[[models]]
id = "local/llama"
upstream_model = "{model}"
context_length = 16384
pricing = {{ official_input_per_m = 1.0, official_output_per_m = 2.0, currency = "USD" }}

[[models]]
id = "local/thinker"
upstream_model = "qwen3:8b"

[[models]]
id = "small/llama"
upstream_model = "{model}"
context_length = 16384

[[models]]
id = "local/embed"
upstream_model = "all-minilm"
category = ["embedding"]
"""


@pytest.fixture(scope="module")
def client(server, tmp_path_factory):
    with gateway(tmp_path_factory.mktemp("ollama"), CONFIG.format(url=server.url, model=MODEL)) as running:
        yield running


@pytest.fixture(scope="module")
def theirs(server):
    return ollama.Client(host=server.url, trust_env=False)


# --- What the package says of requests and answers ----------------------------------------------------------------


def check_chat(request):
    """Checks that the package knows every member and its type."""
    assert (request.method, request.path) == ("POST", "/api/chat")
    body = request.json
    # A schema may say more than the package's type of it: that it is an object with a name is enough.
    declared = body.pop("tools", [])
    for tool in declared:
        ollama.Tool.model_validate(tool)
        assert set(tool) == {"type", "function"} and set(tool["function"]) <= {"name", "description", "parameters"}
    for message in body.pop("messages"):
        for image in message.pop("images", []):
            # On the wire a picture is what the package's type of it is written as.
            assert ollama.Image(value=base64.b64decode(image, validate=True)).model_dump() == image
        # The server's own (`api/types.go`, `ToolCall.ID` and `Message.ToolCallID`); the package has no names for them yet.
        message.pop("tool_call_id", None)
        for call in message.get("tool_calls", []):
            call.pop("id", None)
        ollama.Message.model_validate(message, extra="forbid")
        assert message["role"] in ("system", "user", "assistant", "tool")
    ollama.Options.model_validate(body.pop("options", {}), extra="forbid")
    # The server's own (`api/types.go`): a prompt that is too long is an error, not cut in silence.
    assert not body.pop("truncate", False) and not body.pop("shift", False)
    ollama._types.ChatRequest.model_validate(body, extra="forbid")
    # An absent `stream` means true.
    assert isinstance(body["stream"], bool)
    return request.json


def response(content="", done=False, **more):
    message = {key: more.pop(key) for key in ("thinking", "tool_calls", "role") if key in more}
    end = {"done_reason": "stop", "total_duration": 5, "prompt_eval_count": 26, "eval_count": 9} if done else {}
    body = {"model": MODEL, "created_at": "2026-01-01T00:00:00.000000Z", "done": done, **end, **more}
    body["message"] = {"role": "assistant", "content": content, **message}
    return ollama.ChatResponse.model_validate(body, extra="forbid").model_dump_json(exclude_none=True).encode()


def chat(*contents, **last):
    """Answers as the request asks: with lines, or with one object that has all of them."""

    def answer(request):
        sent = check_chat(request)
        if sent["stream"]:
            lines = [response(**content) for content in contents] + [response(done=True, **last)]
            return stream([line + b"\n" for line in lines], LINES)
        whole = {
            "content": "".join(content.get("content", "") for content in contents),
            "thinking": "".join(content.get("thinking", "") for content in contents) or None,
            "tool_calls": [call for content in contents for call in content.get("tool_calls", [])] or None,
        }
        return Answer(response(done=True, **whole, **last))

    return answer


def call(name, **arguments):
    return {"function": {"name": name, "arguments": arguments}}


# --- Chat -------------------------------------------------------------------------------------------------------


@STREAMED
def test_a_chat(server, client, theirs, streamed):
    pieces = [{"content": "Grüße, "}, {"content": '👍 "you"\n'}]
    server.reset(chat(*pieces))
    said = theirs.chat(MODEL, messages=HELLO, stream=streamed)
    text = "".join(part.message.content for part in said) if streamed else said.message.content
    answer = ask(
        client,
        streamed,
        model="local/llama",
        messages=HELLO,
        max_tokens=50,
        temperature=1.5,
        top_p=0.9,
        stop=["END"],
        seed=7,
        frequency_penalty=0.5,
        presence_penalty=0.25,
    )
    sent = server.last.json
    assert answer.choices[0].message.content == text == 'Grüße, 👍 "you"\n'
    assert answer.choices[0].finish_reason == "stop"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (26, 9)
    assert answer.usage.cost_usd == pytest.approx((26 * 1.0 + 9 * 2.0) / 1e6)
    assert sent["model"] == MODEL and sent["stream"] is streamed
    assert sent["messages"] == HELLO
    options = sent["options"]
    # Without this option Ollama silently cuts the prompt at a small context.
    assert options.pop("num_ctx") == 16384
    assert options.pop("num_predict") == 50
    for penalty in ("frequency_penalty", "presence_penalty"):
        options.pop(penalty, None)
    assert options == {"temperature": 1.5, "top_p": 0.9, "stop": ["END"], "seed": 7}


def test_the_context_is_capped(server, client):
    server.reset(chat({"content": "Hi"}))
    client.chat.completions.create(model="small/llama", messages=HELLO)
    assert server.last.json["options"]["num_ctx"] == 4096


@STREAMED
@pytest.mark.parametrize(("reason", "finish"), [("stop", "stop"), ("length", "length"), ("load", "stop")])
def test_finish_reasons(server, client, streamed, reason, finish):
    server.reset(chat({"content": "Some"}, done_reason=reason))
    if streamed:
        chunks = list(client.chat.completions.create(model="local/llama", messages=HELLO, stream=True))
        assert chunks[-1].choices[0].finish_reason == finish
    else:
        answer = client.chat.completions.create(model="local/llama", messages=HELLO)
        assert answer.choices[0].finish_reason == finish


def test_counts_that_are_left_out_are_estimated(server, client):
    """A prompt that it still has in its cache is not counted."""
    server.reset(chat({"content": "Some words"}, prompt_eval_count=None, eval_count=None))
    answer = client.chat.completions.create(model="local/llama", messages=HELLO)
    assert answer.usage.prompt_tokens > 0 and answer.usage.completion_tokens > 0


@STREAMED
def test_tools_their_results_and_an_answer(server, client, theirs, streamed):
    pieces = [
        {"content": "I will look."},
        {"tool_calls": [call("get_weather", city="Zürich", days=2)]},
        {"tool_calls": [call("now"), call("get_weather", city="Bern", days=1)]},
    ]
    server.reset(chat(*pieces))
    # The package's client reads three calls without ids.
    said = theirs.chat(MODEL, messages=HELLO, tools=[WEATHER], stream=True)
    wanted = [
        (made.function.name, made.function.arguments) for part in said for made in part.message.tool_calls or []
    ]
    request = {
        "model": "local/llama",
        "tools": [WEATHER, TIME, function("now")],
        "messages": [{"role": "user", "content": "Weather? Time?"}],
    }
    choice = ask(client, streamed, **request).choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.content == "I will look."
    assert calls_of(choice.message) == wanted
    ids = [made.id for made in choice.message.tool_calls]
    assert len(set(ids)) == 3 and all(ids)
    assert server.last.json["tools"][0]["function"]["parameters"] == WEATHER["function"]["parameters"]

    server.reset(chat({"content": "Sunny."}))
    request["messages"] += [
        history(choice.message),
        *({"role": "tool", "tool_call_id": id_, "content": f"result {at}"} for at, id_ in enumerate(ids)),
    ]
    answer = ask(client, streamed, **request)
    assert answer.choices[0].message.content == "Sunny."
    user, assistant, *results = server.last.json["messages"]
    made = [(each["function"]["name"], each["function"]["arguments"]) for each in assistant["tool_calls"]]
    assert assistant["content"] == "I will look." and made == wanted
    assert [(each["role"], each["content"]) for each in results] == [("tool", f"result {at}") for at in range(3)]
    assert [each.get("tool_name") for each in results] == ["get_weather", "now", "get_weather"]


def test_no_tool_is_no_tools(server, client):
    server.reset(chat({"content": "Fine."}))
    client.chat.completions.create(model="local/llama", messages=HELLO, tools=[WEATHER], tool_choice="none")
    assert not server.last.json.get("tools")


def test_nothing_of_an_untidy_history_is_lost(server, client):
    server.reset(chat({"content": "Fine."}))
    client.chat.completions.create(model="local/llama", messages=UNTIDY, tools=[WEATHER, TIME])
    sent = server.last.json["messages"]
    check_said(json.dumps(sent, ensure_ascii=False))
    assert [turn["tool_name"] for turn in sent if turn["role"] == "tool"] == ["get_weather", "get_time", "get_weather"]


def test_an_image(server, client):
    server.reset(chat({"content": "A red dot."}))
    content = [{"type": "text", "text": "What is this?"}, IMAGE]
    client.chat.completions.create(model="local/llama", messages=[{"role": "user", "content": content}])
    message = server.last.json["messages"][0]
    assert (message["content"], message["images"]) == ("What is this?", [PIXEL])


@STREAMED
def test_thoughts(server, client, theirs, streamed):
    server.reset(chat({"thinking": "Hm, let "}, {"thinking": "me see."}, {"content": "42"}))
    said = theirs.chat("qwen3:8b", messages=HELLO, think=True)
    answer = ask(client, streamed, model="local/thinker", messages=HELLO, reasoning_effort="high")
    assert reasoning_of(answer.choices[0].message) == said.message.thinking == "Hm, let me see."
    assert answer.choices[0].message.content == "42"
    assert server.last.json["think"] is True


class City(BaseModel):
    name: str
    people: int


@STREAMED
def test_structured_output(server, client, streamed):
    server.reset(chat({"content": '{"name": "Bern", '}, {"content": '"people": 134000}'}))
    request = {"model": "local/llama", "messages": HELLO, "response_format": City}
    if streamed:
        with client.chat.completions.stream(**request) as events:
            message = events.until_done().get_final_completion().choices[0].message
    else:
        message = client.chat.completions.parse(**request).choices[0].message
    assert message.parsed == City(name="Bern", people=134000)
    schema = server.last.json["format"]
    assert schema["type"] == "object" and set(schema["properties"]) == {"name", "people"}


def test_json_mode(server, client):
    server.reset(chat({"content": "{}"}))
    client.chat.completions.create(model="local/llama", messages=HELLO, response_format={"type": "json_object"})
    assert server.last.json["format"] == "json"


# --- Streams and errors -------------------------------------------------------------------------------------------

SCRIPT = [
    response("Grüße, "),
    response("👍 you"),
    response(tool_calls=[call("get_weather", city="Zürich", days=2), call("now")]),
    response(done=True),
]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("size", [1, 3, 11, 1 << 20])
def test_a_stream_however_it_is_cut(server, client, theirs, size, end):
    whole = end.join(SCRIPT) + end
    server.reset(stream((whole[at : at + size] for at in range(0, len(whole), size)), LINES))
    server.answer.pieces = list(server.answer.pieces)
    said = list(theirs.chat(MODEL, messages=HELLO, stream=True))
    answer = ask(client, True, model="local/llama", messages=HELLO, tools=[WEATHER, function("now")])
    assert answer.choices[0].message.content == "".join(part.message.content for part in said)
    assert calls_of(answer.choices[0].message) == [("get_weather", {"city": "Zürich", "days": 2}), ("now", {})]
    assert answer.choices[0].finish_reason == "tool_calls"


def test_the_last_line_may_lack_its_end(server, client):
    server.reset(stream([b"\n".join(SCRIPT)], LINES))
    answer = ask(client, True, model="local/llama", messages=HELLO, tools=[WEATHER, function("now")])
    assert answer.choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize("breaks", [False, True])
@pytest.mark.parametrize("kept", [1, 2, 3])
def test_a_stream_that_ends_early_never_looks_complete(server, client, kept, breaks):
    server.reset(stream([line + b"\n" for line in SCRIPT[:kept]] + [SCRIPT[kept][:20]], LINES, breaks=breaks))
    with pytest.raises(openai.APIError):
        for chunk in client.chat.completions.create(model="local/llama", messages=HELLO, stream=True):
            assert chunk.choices[0].finish_reason is None


@pytest.mark.parametrize("kept", [0, 2])
def test_an_error_in_a_stream(server, client, theirs, kept):
    lines = [line + b"\n" for line in SCRIPT[:kept]]
    server.reset(stream([*lines, b'{"error":"model runner has unexpectedly stopped"}\n'], LINES))
    with pytest.raises(ollama.ResponseError):
        list(theirs.chat(MODEL, messages=HELLO, stream=True))
    with pytest.raises(openai.APIError):
        for chunk in client.chat.completions.create(model="local/llama", messages=HELLO, stream=True):
            assert chunk.choices[0].finish_reason is None


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (404, 'model "llama3.2:3b" not found, try pulling it first', openai.APIStatusError),
        (400, '"llama3.2:3b" does not support tools', openai.BadRequestError),
        (500, "model requires more system memory (5.5 GiB) than is available", openai.InternalServerError),
        (503, "server busy, please try again. maximum pending requests exceeded", openai.InternalServerError),
    ],
)
@STREAMED
def test_errors(server, client, theirs, status, message, kind, streamed):
    server.reset(Answer({"error": message}, status))
    with pytest.raises(ollama.ResponseError):
        theirs.chat(MODEL, messages=HELLO)
    with pytest.raises(kind) as caught:
        ask(client, streamed, model="local/llama", messages=HELLO)
    assert set(caught.value.body) == {"message", "type", "code"}


# --- Embeddings ---------------------------------------------------------------------------------------------------


def test_embeddings(server, client, theirs):
    def answer(request):
        assert request.path == "/api/embed"
        sent = request.json
        ollama._types.EmbedRequest.model_validate(sent, extra="forbid")
        texts = sent["input"] if isinstance(sent["input"], list) else [sent["input"]]
        vectors = [[float(len(text)), 0.25, -1.5] for text in texts]
        said = ollama.EmbedResponse(model=sent["model"], embeddings=vectors, prompt_eval_count=2 * len(texts))
        return Answer(said.model_dump_json(exclude_none=True).encode())

    server.reset(answer)
    vectors = [list(vector) for vector in theirs.embed("all-minilm", ["One", "Grüße"]).embeddings]
    given = client.embeddings.create(model="local/embed", input=["One", "Grüße"], encoding_format="float")
    server.check()
    assert [vector.embedding for vector in given.data] == vectors
    assert given.usage.prompt_tokens == 4
    assert json.loads(server.last.body)["model"] == "all-minilm"
