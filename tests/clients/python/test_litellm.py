"""LiteLLM's proxy as the upstream: a server of Anthropic's and of Gemini's format that nobody here wrote.

Behind it stands a server that speaks OpenAI's format. So a request goes from OpenAI's words to the provider's (ours) and
back to OpenAI's (LiteLLM's), and what arrives at the far end must be what the client said; the answer likewise.
Where LiteLLM itself loses something, the test says so.
"""

import json
import os

import openai
import pytest
from processes import HERE, ROOT, running
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

PROXY_KEY = "sk-litellm-test-key"
PYTHON = os.environ.get("LITELLM_PYTHON", str(ROOT / ".testenv/litellm/bin/python"))
USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 7,
    "total_tokens": 27,
    "prompt_tokens_details": {"cached_tokens": 5},
}

CONFIG = """
[[providers]]
name = "claude"
api = "anthropic"
base_url = "{proxy}"
api_key = "{key}"

[[providers]]
name = "gem"
api = "gemini"
base_url = "{proxy}"
api_key = "{key}"

[[providers]]
name = "stranger"
api = "anthropic"
base_url = "{proxy}"
api_key = "sk-not-the-key"

[[providers]]
name = "stranger-gem"
api = "gemini"
base_url = "{proxy}"
api_key = "sk-not-the-key"

[[models]]
id = "claude/far"
upstream_model = "claude-sonnet-4-5"
context_length = 100000
max_output_tokens = 4000
pricing = {{ official_input_per_m = 3.0, official_output_per_m = 15.0, cached_input_per_m = 0.3, currency = "USD" }}

[[models]]
id = "claude/old"
upstream_model = "claude-3-haiku-20240307"

[[models]]
id = "gem/far"
upstream_model = "gemini-2.5-flash"
context_length = 100000
pricing = {{ official_input_per_m = 3.0, official_output_per_m = 15.0, cached_input_per_m = 0.3, currency = "USD" }}

[[models]]
id = "claude/unknown"

[[models]]
id = "stranger/far"
upstream_model = "claude-sonnet-4-5"

[[models]]
id = "stranger-gem/far"
upstream_model = "gemini-2.5-flash"
"""


@pytest.fixture(scope="module")
def client(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("litellm")
    environment = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    command = [PYTHON, str(HERE / "litellm_proxy.py"), server.url, PROXY_KEY, str(folder)]
    with (
        running(command, env={**environment, "HOME": str(folder)}, cwd=folder) as proxy,
        gateway(folder, CONFIG.format(proxy=proxy.url, key=PROXY_KEY)) as client,
    ):
        yield client


def says(message, finish="stop", usage=USAGE):
    """The far end answers with this message, plain or in pieces as it is asked."""

    def chunk(delta, finish=None, **more):
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        body = {"id": "far-1", "object": "chat.completion.chunk", "created": 1, "model": "far", "choices": choices}
        return b"data: " + json.dumps({**body, **more}).encode() + b"\n\n"

    def pieces():
        yield chunk({"role": "assistant"})
        for letter in message.get("reasoning_content", ""):
            yield chunk({"reasoning_content": letter})
        for letter in message.get("content") or "":
            yield chunk({"content": letter})
        for index, call in enumerate(message.get("tool_calls", [])):
            head = {"name": call["function"]["name"], "arguments": ""}
            yield chunk({"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": head}]})
            for letter in call["function"]["arguments"]:
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": letter}}]})
        yield chunk({}, finish)
        yield chunk({}, usage=usage).replace(b'[{"index": 0, "delta": {}, "finish_reason": null}]', b"[]")
        yield b"data: [DONE]\n\n"

    def answer(request):
        if request.json.get("stream"):
            return stream(pieces(), "text/event-stream")
        choices = [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}]
        head = {"id": "far-1", "object": "chat.completion", "created": 1, "model": "far"}
        return Answer({**head, "choices": choices, "usage": usage})

    return answer


def call(number, name, **arguments):
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def text(message):
    """The text of a message at the far end, string or parts."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


MODELS = pytest.mark.parametrize("model", ["claude/far", "gem/far"])


@MODELS
@STREAMED
def test_a_chat(client, server, model, streamed):
    server.reset(says({"content": "Grüße, 👍 \"you\"\n"}))
    answer = ask(
        client, streamed, model=model, messages=HELLO, max_tokens=50, temperature=0.5, stop=["END", "\n\n\n"]
    )
    assert answer.choices[0].message.content == "Grüße, 👍 \"you\"\n"
    assert answer.choices[0].finish_reason == "stop"
    sent = server.last.json
    assert [(message["role"], text(message)) for message in sent["messages"]] == [
        ("system", "Be kind."),
        ("user", "Hello there"),
    ]
    assert (sent["max_tokens"], sent["temperature"]) == (50, 0.5)
    # A stop sequence of white space only is refused by Anthropic.
    assert [stop for stop in sent["stop"] if stop.strip()] == ["END"]
    if streamed and model == "gem/far":
        return  # LiteLLM's Gemini streams report no usage
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (20, 7)
    assert answer.usage.total_tokens == 27
    cached = 5 if model == "claude/far" else 0  # LiteLLM's Gemini answers leave the cached part out
    details = answer.usage.prompt_tokens_details
    assert (details.cached_tokens if details else 0) == cached
    assert answer.usage.cost_usd == pytest.approx(((20 - cached) * 3.0 + cached * 0.3 + 7 * 15.0) / 1e6)


@MODELS
@STREAMED
@pytest.mark.parametrize("finish", ["stop", "length", "content_filter"])
def test_finish_reasons(client, server, model, streamed, finish):
    server.reset(says({"content": "Some"}, finish))
    if finish == "content_filter" and model == "claude/far":
        pytest.skip("LiteLLM has no Anthropic stop reason for it")
    answer = ask_or_length(client, streamed, model=model, messages=HELLO)
    assert answer.choices[0].finish_reason == finish
    assert answer.choices[0].message.content == "Some"


def ask_or_length(client, streamed, **request):
    """The stream helper of the SDK raises where a plain answer is only short; the chunks tell the same."""
    if not streamed:
        return client.chat.completions.create(**request)
    from openai.lib.streaming.chat import ChatCompletionStreamState

    state = ChatCompletionStreamState()
    for chunk in client.chat.completions.create(**request, stream=True):
        state.handle_chunk(chunk)
    return state.current_completion_snapshot


@MODELS
@STREAMED
def test_two_tools_their_results_and_an_answer(client, server, model, streamed):
    """The second request at the far end tells which result belongs to which call."""
    first = {
        "content": "I will look.",
        "tool_calls": [call("a", "get_weather", city='Zü"rich\n', days=2), call("b", "get_time", zone="CET")],
    }
    server.reset(says(first, "tool_calls"))
    request = {"model": model, "tools": [WEATHER, TIME], "messages": [{"role": "user", "content": "Weather, time?"}]}
    answer = ask(client, streamed, **request)
    choice = answer.choices[0]
    wanted = [("get_weather", {"city": 'Zü"rich\n', "days": 2}), ("get_time", {"zone": "CET"})]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "I will look."
    assert calls_of(choice.message) == wanted
    ids = [tool_call.id for tool_call in choice.message.tool_calls]
    assert len(set(ids)) == 2 and all(ids)
    declared = {tool["function"]["name"]: tool["function"] for tool in server.last.json["tools"]}
    assert list(declared) == ["get_weather", "get_time"]
    assert declared["get_weather"]["description"] == "Calls get_weather."
    assert set(declared["get_weather"]["parameters"]["properties"]) == {"city", "days"}

    server.reset(says({"content": "Sunny at noon."}))
    results = [
        {"role": "tool", "tool_call_id": ids[1], "content": "12:00"},
        {"role": "tool", "tool_call_id": ids[0], "content": '{"sky": "sunny"}'},
    ]
    request["messages"] += [history(choice.message), *results, {"role": "user", "content": "So?"}]
    answer = ask(client, streamed, **request)
    assert answer.choices[0].message.content == "Sunny at noon."
    assert answer.choices[0].finish_reason == "stop"
    sent = server.last.json["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "user"]
    assert text(sent[1]) == "I will look." and text(sent[-1]) == "So?"
    made = [(each["function"]["name"], json.loads(each["function"]["arguments"])) for each in sent[1]["tool_calls"]]
    assert made == wanted
    names = {each["id"]: each["function"]["name"] for each in sent[1]["tool_calls"]}
    told = {names[message["tool_call_id"]]: text(message) for message in sent[2:4]}
    assert "sunny" in told["get_weather"] and "12:00" in told["get_time"]


@MODELS
@STREAMED
def test_a_tool_without_arguments(client, server, model, streamed):
    bare = {"id": "call_c", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    server.reset(says({"content": None, "tool_calls": [bare]}, "tool_calls"))
    answer = ask(client, streamed, model=model, messages=HELLO, tools=[function("now")])
    assert calls_of(answer.choices[0].message) == [("now", {})]
    assert not answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "tool_calls"


@MODELS
@pytest.mark.parametrize(
    ("choice", "arrives"),
    [
        ("auto", ("auto", None)),
        ("required", ("required",)),
        ("none", ("none",)),
        ({"type": "function", "function": {"name": "get_time"}}, "named"),
    ],
    ids=["auto", "required", "none", "named"],
)
def test_tool_choice(client, server, model, choice, arrives):
    server.reset(says({"content": "Fine."}))
    client.chat.completions.create(model=model, messages=HELLO, tools=[WEATHER, TIME], tool_choice=choice)
    sent = server.last.json
    if arrives != "named":
        # A request without tools has no tool choice.
        assert sent.get("tool_choice") in arrives or choice == "none" and "tools" not in sent
    elif model == "claude/far":
        assert sent["tool_choice"] == choice
    else:
        assert sent["tool_choice"] == "required"  # LiteLLM reads the mode alone, not the names


def test_an_image(client, server):
    """Anthropic's only: LiteLLM's Gemini server does not read `inlineData`."""
    server.reset(says({"content": "A red dot."}))
    content = [{"type": "text", "text": "What is this?"}, IMAGE]
    client.chat.completions.create(model="claude/far", messages=[{"role": "user", "content": content}])
    parts = server.last.json["messages"][0]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url"]
    assert parts[1]["image_url"]["url"] == "data:image/png;base64," + PIXEL


@STREAMED
def test_reasoning(client, server, streamed):
    """Anthropic's only: LiteLLM's Gemini server leaves thoughts out."""
    server.reset(says({"reasoning_content": "Hm, let me see.", "content": "42"}))
    answer = ask(client, streamed, model="claude/far", messages=HELLO, reasoning_effort="low", max_tokens=3000)
    assert answer.choices[0].message.content == "42"
    assert reasoning_of(answer.choices[0].message) == "Hm, let me see."
    assert server.last.json["max_tokens"] == 3000


class City(BaseModel):
    name: str
    people: int


@pytest.mark.parametrize("model", ["claude/far", "claude/old"])
@STREAMED
def test_structured_output(client, server, model, streamed):
    """The far end answers as it is asked to: in the given format, or by the tool that it must call."""

    def answer(request):
        sent = request.json
        found = json.dumps({"name": "Bern", "people": 134000})
        choice = sent.get("tool_choice")
        if isinstance(choice, dict) or choice == "required":
            name = sent["tools"][0]["function"]["name"]
            made = {"id": "call_s", "type": "function", "function": {"name": name, "arguments": found}}
            return says({"content": None, "tool_calls": [made]}, "tool_calls")(request)
        schema = sent["response_format"]["json_schema"]["schema"]
        assert set(schema["properties"]) == {"name", "people"}
        return says({"content": found})(request)

    server.reset(answer)
    request = {"model": model, "messages": HELLO, "response_format": City}
    if streamed:
        with client.chat.completions.stream(**request) as events:
            choice = events.until_done().get_final_completion().choices[0]
    else:
        choice = client.chat.completions.parse(**request).choices[0]
    server.check()
    assert choice.message.parsed == City(name="Bern", people=134000)
    assert choice.finish_reason == "stop" and not choice.message.tool_calls


@MODELS
def test_several_choices_are_several_calls(client, server, model):
    server.reset(says({"content": "One"}))
    answer = client.chat.completions.create(model=model, messages=HELLO, n=2)
    if model == "claude/far":
        assert [(choice.index, choice.message.content) for choice in answer.choices] == [(0, "One"), (1, "One")]
        assert len(server.requests) == 2 and answer.usage.completion_tokens == 14
    else:
        # Gemini is asked for all at once (`candidateCount`), which LiteLLM does not read.
        assert answer.choices[0].message.content == "One"


@MODELS
@STREAMED
def test_a_text_completion(client, server, model, streamed):
    server.reset(says({"content": " upon a time"}))
    request = {"model": model, "prompt": "Once", "max_tokens": 9}
    if streamed:
        lenient = client.with_options()
        lenient._strict_response_validation = False  # its types leave out `finish_reason: null`
        chunks = list(lenient.completions.create(**request, stream=True))
        assert "".join(chunk.choices[0].text for chunk in chunks) == " upon a time"
        assert chunks[-1].choices[0].finish_reason == "stop"
    else:
        answer = client.completions.create(**request)
        assert answer.choices[0].text == " upon a time" and answer.choices[0].finish_reason == "stop"
    assert [text(message) for message in server.last.json["messages"]] == ["Once"]


@pytest.mark.parametrize("model", ["stranger/far", "stranger-gem/far"])
@STREAMED
def test_a_key_that_is_refused(client, server, model, streamed):
    server.reset(says({"content": "Never"}))
    with pytest.raises(openai.InternalServerError) as caught:
        ask(client, streamed, model=model, messages=HELLO)
    assert caught.value.code == "upstream_auth_error"
    assert "sk-not-the-key" not in caught.value.message and server.requests == []


@MODELS
@STREAMED
@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (429, openai.RateLimitError, "upstream_rate_limited"),
        (400, openai.BadRequestError, "400"),
        (500, openai.InternalServerError, "upstream_error"),
    ],
)
def test_errors(client, server, model, streamed, status, kind, code):
    if status == 400 and model == "gem/far":
        pytest.skip("LiteLLM's Gemini server makes a 500 of it")
    server.reset(Answer({"error": {"message": "No, not today.", "type": "e", "code": status}}, status=status))
    with pytest.raises(kind) as caught:
        ask(client, streamed, model=model, messages=HELLO)
    assert set(caught.value.body) == {"message", "type", "code"}
    assert caught.value.code == code


def test_a_model_that_the_proxy_does_not_have(client, server):
    server.reset(says({"content": "Never"}))
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(model="claude/unknown", messages=HELLO)
    assert (caught.value.status_code, caught.value.code) == (400, "400") and server.requests == []


@MODELS
def test_a_stream_that_breaks_never_looks_complete(client, server, model):
    """LiteLLM ends its own stream as if nothing had happened; only the missing finish reason tells."""
    whole = says({"content": "Half of it"})

    def broken(request):
        answer = whole(request)
        answer.pieces, answer.breaks = answer.pieces[:5], True
        return answer

    server.reset(broken)
    with pytest.raises(openai.APIError):
        for chunk in client.chat.completions.create(model=model, messages=HELLO, stream=True):
            assert chunk.choices[0].finish_reason is None


@MODELS
def test_nothing_of_an_untidy_history_is_lost(client, server, model):
    server.reset(says({"content": "Fine."}))
    client.chat.completions.create(model=model, messages=UNTIDY, tools=[WEATHER, TIME])
    sent = server.last.json["messages"]
    everything = json.dumps(sent, ensure_ascii=False)
    check_said(everything)
    made = {each["id"]: each["function"] for turn in sent for each in turn.get("tool_calls") or []}
    assert [each["role"] for each in sent].count("tool") == 3
    assert {turn["tool_call_id"] for turn in sent if turn["role"] == "tool"} <= set(made)
    assert all(isinstance(json.loads(each["arguments"]), dict) for each in made.values())
