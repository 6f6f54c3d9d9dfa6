"""Anthropic's own Python SDK, as its users use it, on models of other dialects and on a scripted upstream of Anthropic's."""

import asyncio
import json

import anthropic
import openai
import pytest
from anthropic import Anthropic, AsyncAnthropic
from openai import OpenAI
from processes import running_gateway
from upstreams import PIXEL, SERVER, Answer, stream, upstream

KEY = "sk-anthropic-test-key"
HELLO = [{"role": "user", "content": "Hello there"}]
WEATHER = {
    "name": "get_weather",
    "description": "The weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
TIME = {
    "name": "get_time",
    "description": "The time of a zone",
    "input_schema": {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]},
}
CONFIG = """
[routing]
retries = 0
[routing.breaker]
failures = 10000

[[keys]]
name = "all"
key = "{key}"

[[keys]]
name = "limited"
key = "{key}-limited"
models = ["demo/*"]
rpm = 2

[[keys]]
name = "spent"
key = "{key}-spent"
budget_usd = 0.0000001

[[providers]]
name = "demo"
api = "demo"

[[providers]]
name = "claude"
api = "anthropic"
base_url = "{url}"
api_key = "upstream-key"

[[providers]]
name = "chatty"
api = "openai"
base_url = "{url}/v1"
api_key = "upstream-key"
responses = false

[[models]]
id = "claude/claude-opus-4-5"

[[models]]
id = "chatty/plain"

[[models]]
id = "chatty/priced"
pricing = {{ official_input_per_m = 1.0, official_output_per_m = 2.0 }}
"""


@pytest.fixture(scope="module")
def scripted():
    with upstream() as process:
        yield process


@pytest.fixture(scope="module")
def url(tmp_path_factory, scripted):
    config = SERVER + CONFIG.format(key=KEY, url=scripted.url)
    with running_gateway(tmp_path_factory.mktemp("gateway"), config) as process:
        yield process.url


@pytest.fixture(scope="module")
def claude(url):
    with Anthropic(base_url=url, api_key=KEY, max_retries=0, timeout=60, _strict_response_validation=True) as client:
        yield client


def ask(client, streamed, **request):
    """A message, plain or put together from its stream by the SDK: both must look the same."""
    request = {"max_tokens": 2000, "messages": HELLO, **request}
    if not streamed:
        return client.messages.create(**request)
    with client.messages.stream(**request) as events:
        return events.get_final_message()


STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])


@STREAMED
def test_text(claude, streamed):
    message = ask(claude, streamed, model="demo/chat")
    assert message.id.startswith("msg_")
    assert (message.type, message.role, message.stop_reason) == ("message", "assistant", "end_turn")
    assert [(block.type, block.text) for block in message.content] == [("text", "Demo answer to: Hello there")]
    assert (message.usage.input_tokens, message.usage.output_tokens) == (2, 5)


def test_the_gateway_object_and_the_request_id(claude):
    message = claude.messages.create(model="demo/chat", max_tokens=100, messages=HELLO)
    assert message.gateway["model_used"] == "demo/chat"
    assert message._request_id == message.gateway["request_id"]


def test_text_stream(claude):
    with claude.messages.stream(model="demo/chat", max_tokens=100, messages=HELLO) as events:
        pieces = list(events.text_stream)
        assert events.get_final_text() == "".join(pieces)
    assert pieces == ["Demo", " answer", " to:", " Hello", " there"]


def test_raw_events(claude):
    events = list(claude.messages.create(model="demo/chat", max_tokens=100, messages=HELLO, stream=True))
    assert [event.type for event in events] == [
        "message_start",
        "content_block_start",
        *["content_block_delta"] * 5,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert events[0].message.usage.input_tokens > 0
    assert events[-2].delta.stop_reason == "end_turn"
    assert events[-2].usage.output_tokens == 5


def test_async(url):
    async def run():
        async with AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0) as client:
            request = {"model": "demo/chat", "max_tokens": 100, "messages": HELLO}
            answers = await asyncio.gather(*(client.messages.create(**request) for _ in range(4)))
            assert len({answer.id for answer in answers}) == 4
            async with client.messages.stream(**request) as events:
                text = "".join([piece async for piece in events.text_stream])
                final = await events.get_final_message()
            assert text == final.content[0].text == answers[0].content[0].text
            raw = await client.messages.create(**request, stream=True)
            assert [event.type async for event in raw][-1] == "message_stop"
            assert (await client.messages.count_tokens(model="demo/chat", messages=HELLO)).input_tokens > 0
            page = await client.models.list(limit=1000)
            assert [model.id async for model in client.models.list(limit=1)] == [model.id for model in page.data]
            with pytest.raises(anthropic.NotFoundError):
                await client.messages.create(**{**request, "model": "no/such-model"})

    asyncio.run(run())


def test_a_bearer_token(url):
    # `auth_token` is what ANTHROPIC_AUTH_TOKEN sets: Authorization instead of x-api-key.
    with Anthropic(base_url=url, auth_token=KEY, api_key=None, max_retries=0) as client:
        message = client.messages.create(model="demo/chat", max_tokens=100, messages=HELLO)
    assert message.content[0].text == "Demo answer to: Hello there"


def test_max_tokens(claude):
    message = claude.messages.create(model="demo/chat", max_tokens=1, messages=HELLO)
    assert message.stop_reason == "max_tokens" and message.usage.output_tokens == 1


# --- Over an upstream that speaks chat completions ----------------------------------------------------------------


def completion(message, finish):
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1790000000,
        "model": "plain",
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }


def call(number, name, arguments):
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def said(message, finish):
    """An upstream that answers so, streamed when asked."""

    def answer(request):
        whole = completion(message, finish)
        if not request.json.get("stream"):
            return Answer(whole)
        delta = dict(message)
        if "tool_calls" in delta:
            delta["tool_calls"] = [{"index": index, **entry} for index, entry in enumerate(delta["tool_calls"])]
        base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1790000000, "model": "plain"}
        chunks = [
            {**base, "choices": [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None}]},
            {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
            {**base, "choices": [], "usage": whole["usage"]},
        ]
        lines = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]
        return stream([*lines, b"data: [DONE]\n\n"], "text/event-stream")

    return answer


@STREAMED
def test_tools_in_parallel_and_their_results(claude, scripted, streamed):
    calls = [call("a", "get_weather", {"city": "Oslo"}), call("b", "get_time", {"zone": "CET"})]
    scripted.reset(said({"content": "I look.", "tool_calls": calls}, "tool_calls"))
    tools = [WEATHER, TIME]
    first = ask(claude, streamed, model="chatty/plain", tools=tools)
    assert first.stop_reason == "tool_use"
    assert [block.type for block in first.content] == ["text", "tool_use", "tool_use"]
    assert [(block.id, block.name, block.input) for block in first.content[1:]] == [
        ("call_a", "get_weather", {"city": "Oslo"}),
        ("call_b", "get_time", {"zone": "CET"}),
    ]
    sent = scripted.last.json["tools"]
    assert [tool["function"]["name"] for tool in sent] == ["get_weather", "get_time"]
    assert sent[0]["function"]["parameters"]["required"] == ["city"]

    scripted.reset(said({"content": "Sunny at noon."}, "stop"))
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    results = [
        {"type": "tool_result", "tool_use_id": "call_a", "content": [{"type": "text", "text": "sunny"}, picture]},
        {"type": "tool_result", "tool_use_id": "call_b", "content": "noon", "is_error": False},
    ]
    turns = [*HELLO, {"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
    last = ask(claude, streamed, model="chatty/plain", tools=tools, messages=turns)
    assert last.stop_reason == "end_turn" and last.content[0].text == "Sunny at noon."
    assert (last.usage.input_tokens, last.usage.output_tokens) == (11, 7)
    sent = scripted.last.json["messages"]
    assert [turn["role"] for turn in sent[:4]] == ["user", "assistant", "tool", "tool"]
    assert [entry["id"] for entry in sent[1]["tool_calls"]] == ["call_a", "call_b"]
    assert [turn["tool_call_id"] for turn in sent[2:4]] == ["call_a", "call_b"]
    assert "sunny" in json.dumps(sent[2]) and "noon" in json.dumps(sent[3])
    # A chat model takes no image in a tool's result: the image follows, and none is lost.
    assert json.dumps(sent).count(PIXEL) == 1


@anthropic.beta_tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return "sunny in " + city


def run_tools(client, **more):
    """A tool loop that the SDK drives."""
    turns = [{"role": "user", "content": "get weather in Paris"}]
    return list(
        client.beta.messages.tool_runner(
            model="demo/chat", max_tokens=500, tools=[get_weather], messages=turns, **more
        )
    )


def test_the_tool_runner(claude):
    answers = run_tools(claude, thread=False)
    assert [answer.stop_reason for answer in answers] == ["tool_use", "end_turn"]
    assert answers[0].content[-1].name == "get_weather"
    assert answers[1].content[0].type == "text"


def test_the_tool_runner_on_a_thread(claude):
    # The SDK expects the server to hold the conversation. It sends everything again when the server lost it.
    answers = run_tools(claude)
    assert [answer.stop_reason for answer in answers] == ["tool_use", "end_turn"]


def test_a_lost_thread_is_never_answered(claude):
    thread = {"type": "continue", "previous_message_id": "msg_of_nobody"}
    with pytest.raises(anthropic.APIStatusError) as caught:
        claude.beta.messages.create(model="demo/chat", max_tokens=100, messages=HELLO, extra_body={"thread": thread})
    assert caught.value.body["error"]["details"]["error_code"] == "thread_not_found"


@STREAMED
def test_thinking_of_a_chat_model(claude, scripted, streamed):
    scripted.reset(said({"reasoning_content": "Let me think.", "content": "Four."}, "stop"))
    thinking = {"type": "enabled", "budget_tokens": 1024}
    message = ask(claude, streamed, model="chatty/plain", thinking=thinking)
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert message.content[0].thinking == "Let me think." and message.content[1].text == "Four."


# --- Over an upstream that speaks Anthropic's dialect ------------------------------------------------------------


THOUGHTFUL = {
    "id": "msg_upstream",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-4-5",
    "content": [
        {"type": "thinking", "thinking": "Let me think.", "signature": "c2lnbmF0dXJl"},
        {"type": "text", "text": "Four."},
    ],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 9, "output_tokens": 6, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2},
}


def thoughtful(request):
    """Anthropic's answer with signed thinking."""
    return said_by_claude(request, THOUGHTFUL)


def said_by_claude(request, message):
    """A message as Anthropic writes it, streamed when asked."""
    if not request.json.get("stream"):
        return Answer(message)
    events = [{"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}]
    for index, block in enumerate(message["content"]):
        kind = block["type"]
        if kind == "tool_use":
            empty = {**block, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        else:
            empty = {"type": kind, kind: "", **({"signature": ""} if kind == "thinking" else {})}
            deltas = [{"type": f"{kind}_delta", kind: block[kind]}]
        if kind == "thinking":
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events += [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 6}}, {"type": "message_stop"}]
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]
    return stream(lines, "text/event-stream")


@STREAMED
def test_signed_thinking_goes_back_to_its_provider(claude, scripted, streamed):
    scripted.reset(thoughtful)
    request = {"model": "claude/claude-opus-4-5", "thinking": {"type": "enabled", "budget_tokens": 1024}}
    first = ask(claude, streamed, **request)
    assert [block.type for block in first.content] == ["thinking", "text"]
    assert first.content[0].thinking == "Let me think." and first.content[1].text == "Four."
    assert first.content[0].signature.startswith("gw1.")
    usage = first.usage
    assert (usage.input_tokens, usage.output_tokens) == (9, 6)
    assert (usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (3, 2)
    assert scripted.last.json["thinking"] == request["thinking"]

    turns = [*HELLO, {"role": "assistant", "content": first.content}, {"role": "user", "content": "And?"}]
    ask(claude, streamed, **request, messages=turns)
    block = scripted.last.json["messages"][1]["content"][0]
    assert (block["thinking"], block["signature"]) == ("Let me think.", "c2lnbmF0dXJl")


class ThreadKeeper:
    """An upstream that keeps threads as Anthropic does: a `continue` names the last answer, brings only what is new, and
    repeats neither tools nor the system prompt."""

    def __init__(self, loses=0):
        self.threads, self.turns, self.loses = {}, 0, loses

    def __call__(self, request):
        body = request.json
        thread = body.get("thread")
        earlier = []
        if thread and thread["type"] == "continue":
            earlier = self.threads.pop(thread["previous_message_id"], None)
            if earlier is None or self.loses:
                self.loses -= 1
                return self.refusal("thread_not_found", 404)
            if "tools" in body or "system" in body:
                return self.refusal("thread_fingerprint_mismatch", 400)
        if thread and "message-threads" not in (request.header("anthropic-beta") or ""):
            return self.refusal("thread_unsupported_request", 400)
        history = [*earlier, *body["messages"]]
        self.check(history)
        self.turns += 1
        results = sum("tool_result" in json.dumps(turn) for turn in history)
        call = {"type": "tool_use", "id": f"toolu_{results}", "name": "get_weather", "input": {"city": "Oslo"}}
        content = [{"type": "thinking", "thinking": "Hm.", "signature": f"sig{results}"}]
        content += [call] if results < 6 else [{"type": "text", "text": "Sunny."}]
        message = {
            **THOUGHTFUL,
            "id": f"msg_{self.turns}",
            "content": content,
            "stop_reason": "tool_use" if results < 6 else "end_turn",
        }
        if thread:
            self.threads[message["id"]] = [*history, {"role": "assistant", "content": content}]
        return said_by_claude(request, message)

    def check(self, history):
        """Each result follows its call, and each thought has its own signature."""
        for before, turn in zip([None, *history], history, strict=False):
            blocks = turn["content"] if isinstance(turn["content"], list) else []
            for block in blocks:
                if block["type"] == "tool_result":
                    assert block["tool_use_id"] in [entry.get("id") for entry in before["content"]], history
                if block["type"] == "thinking":
                    assert block["signature"].startswith("sig"), history

    def refusal(self, code, status):
        error = {"type": "invalid_request_error", "message": "No thread.", "details": {"error_code": code}}
        return Answer({"type": "error", "error": error}, status=status)


def run_six_tools(claude, streamed):
    runner = claude.beta.messages.tool_runner(
        model="claude/claude-opus-4-5",
        max_tokens=2000,
        tools=[get_weather],
        messages=[{"role": "user", "content": "The weather?"}],
        stream=streamed,
    )
    return [answer.get_final_message() if streamed else answer for answer in runner]


@STREAMED
def test_the_tool_runner_sends_only_what_is_new_to_claude(claude, scripted, streamed):
    scripted.reset(ThreadKeeper())
    answers = run_six_tools(claude, streamed)
    assert [answer.stop_reason for answer in answers] == ["tool_use"] * 6 + ["end_turn"]
    sent = [request.json for request in scripted.requests]
    scripted.check()
    assert [body["thread"]["type"] for body in sent] == ["create"] + ["continue"] * 6
    assert [len(body["messages"]) for body in sent] == [1] * 7
    assert [block["type"] for body in sent[1:] for block in body["messages"][0]["content"]] == ["tool_result"] * 6


@STREAMED
def test_the_tool_runner_goes_on_after_claude_lost_the_thread(claude, scripted, streamed):
    scripted.reset(ThreadKeeper(loses=1))
    answers = run_six_tools(claude, streamed)
    assert [answer.stop_reason for answer in answers] == ["tool_use"] * 6 + ["end_turn"]
    scripted.check()
    kinds = [request.json["thread"]["type"] for request in scripted.requests]
    assert kinds == ["create", "continue", "create"] + ["continue"] * 5


INTERLEAVED = {
    **THOUGHTFUL,
    "content": [
        {"type": "thinking", "thinking": "First.", "signature": "c2ln MQ=="},
        {"type": "text", "text": "I look. "},
        {"type": "thinking", "thinking": "Second.", "signature": "c2ln Mg=="},
        {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Oslo"}},
        {"type": "text", "text": "Wait."},
    ],
    "stop_reason": "tool_use",
}


@STREAMED
def test_blocks_keep_their_order_through_anthropics_sdk(claude, scripted, streamed):
    scripted.reset(lambda request: said_by_claude(request, INTERLEAVED))
    request = {"model": "claude/claude-opus-4-5", "thinking": {"type": "enabled", "budget_tokens": 1024}}
    first = ask(claude, streamed, **request, tools=[WEATHER])
    assert [block.type for block in first.content] == [block["type"] for block in INTERLEAVED["content"]]
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}
    turns = [*HELLO, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    ask(claude, streamed, **request, tools=[WEATHER], messages=turns)
    sent = scripted.last.json["messages"][1]["content"]
    shown = [{name: value for name, value in block.items() if value is not None} for block in sent]
    assert shown == INTERLEAVED["content"]


@pytest.mark.parametrize("way", ["items", "previous_response_id"])
@STREAMED
def test_blocks_keep_their_order_through_openais_sdk(url, scripted, streamed, way):
    scripted.reset(lambda request: said_by_claude(request, INTERLEAVED))
    tool = {"type": "function", "name": "get_weather", "parameters": WEATHER["input_schema"], "strict": False}
    request = {"model": "claude/claude-opus-4-5", "tools": [tool], "reasoning": {"effort": "high"}}
    question = {"role": "user", "content": "The weather?"}

    def respond(client, **more):
        if not streamed:
            return client.responses.create(**request, **more)
        with client.responses.stream(**request, **more) as events:
            return events.get_final_response()

    with OpenAI(base_url=url + "/v1", api_key=KEY, max_retries=0) as client:
        first = respond(client, input=[question])
        assert [item.type for item in first.output] == ["reasoning", "message", "reasoning", "function_call", "message"]
        output = {"type": "function_call_output", "call_id": "toolu_1", "output": "sunny"}
        if way == "items":
            respond(client, input=[question, *first.output, output])
        else:
            respond(client, input=[output], previous_response_id=first.id)
    assert scripted.last.json["messages"][1]["content"] == INTERLEAVED["content"]


def test_a_beta_reaches_anthropic(claude, scripted):
    scripted.reset(thoughtful)
    claude.beta.messages.create(
        model="claude/claude-opus-4-5", max_tokens=100, messages=HELLO, betas=["context-1m-2025-08-07"]
    )
    assert scripted.last.header("anthropic-beta") == "context-1m-2025-08-07"
    assert scripted.last.header("x-api-key") == "upstream-key"


# --- The other endpoints ----------------------------------------------------------------------------------------


def test_count_tokens(claude, scripted):
    short = claude.messages.count_tokens(model="demo/chat", messages=HELLO)
    long = claude.messages.count_tokens(model="demo/chat", messages=HELLO, tools=[WEATHER], system="Be kind. " * 50)
    assert 0 < short.input_tokens < long.input_tokens
    scripted.reset(Answer({"input_tokens": 4711}))
    raw = claude.messages.with_raw_response.count_tokens(model="claude/claude-opus-4-5", messages=HELLO)
    assert raw.parse().input_tokens == 4711
    assert raw.headers["x-gateway-token-count"] == "upstream"
    assert scripted.last.path == "/v1/messages/count_tokens"


def test_models(url, claude):
    # Only the newest version of the API has `lifecycle`, which the SDK's types ask for.
    with Anthropic(base_url=url, api_key=KEY, max_retries=0) as lenient:
        ids = [model.id for model in lenient.models.list(limit=1000)]
        assert {"demo/chat", "claude/claude-opus-4-5", "chatty/plain"} <= set(ids)
        # The SDK asks for page after page.
        assert [model.id for model in lenient.models.list(limit=1)] == ids
        model = lenient.models.retrieve("demo/chat")
    assert (model.id, model.type, model.display_name) == ("demo/chat", "model", "Demo Chat")


def test_models_have_what_the_types_require(claude):
    assert claude.models.retrieve("demo/chat").lifecycle == "active"


# --- Errors -----------------------------------------------------------------------------------------------------


def refused(client, kind, **request):
    with pytest.raises(anthropic.APIStatusError) as caught:
        client.messages.create(**{"model": "demo/chat", "max_tokens": 100, "messages": HELLO, **request})
    error = caught.value
    assert type(error) is kind
    assert error.body["type"] == "error"
    assert error.request_id == error.body["request_id"] and error.request_id.startswith("req_")
    return error


@pytest.mark.parametrize(
    ("request_", "kind", "status", "type_"),
    [
        ({"max_tokens": -1}, anthropic.BadRequestError, 400, "invalid_request_error"),
        ({"messages": []}, anthropic.BadRequestError, 400, "invalid_request_error"),
        ({"model": "demo/error-400"}, anthropic.BadRequestError, 400, "invalid_request_error"),
        ({"model": "no/such-model"}, anthropic.NotFoundError, 404, "not_found_error"),
        ({"model": "demo/error-429"}, anthropic.RateLimitError, 429, "rate_limit_error"),
        ({"model": "demo/error-401"}, anthropic.InternalServerError, 502, "api_error"),
        ({"model": "demo/error-500"}, anthropic.InternalServerError, 502, "api_error"),
        ({"model": "demo/panic"}, anthropic.InternalServerError, 500, "api_error"),
        ({"model": "demo/error-503"}, anthropic._exceptions.OverloadedError, 529, "overloaded_error"),
    ],
)
def test_error_classes(claude, request_, kind, status, type_):
    error = refused(claude, kind, **request_)
    assert (error.status_code, error.body["error"]["type"]) == (status, type_)


def test_key_errors(url):
    wrong = Anthropic(base_url=url, api_key="wrong", max_retries=0)
    assert refused(wrong, anthropic.AuthenticationError).body["error"]["type"] == "authentication_error"
    with pytest.raises(anthropic.AuthenticationError):
        wrong.models.list()
    limited = Anthropic(base_url=url, api_key=KEY + "-limited", max_retries=0)
    error = refused(limited, anthropic.PermissionDeniedError, model="chatty/plain")
    assert error.body["error"]["type"] == "permission_error"
    limited.messages.create(model="demo/chat", max_tokens=10, messages=HELLO)
    error = refused(limited, anthropic.RateLimitError)
    assert error.body["error"]["type"] == "rate_limit_error"
    assert 1 <= int(error.response.headers["retry-after"]) <= 120


@pytest.mark.parametrize(
    ("key", "model", "status"),
    [("wrong", "demo/chat", 401), (KEY + "-spent", "chatty/priced", 429), (KEY, "demo/error-401", 502)],
    ids=["wrong key", "spent budget", "the provider's key is wrong"],
)
@pytest.mark.parametrize("sdk", [Anthropic, OpenAI], ids=["anthropic", "openai"])
def test_what_a_retry_cannot_mend_is_asked_once(url, sdk, key, model, status):
    """The SDKs try twice again after 429 and 5xx, and Claude Code also after 401, unless `x-should-retry` is false."""
    sent = []
    hooks = {"request": [lambda request: sent.append(request.url.path)]}
    if sdk is Anthropic:
        client = Anthropic(
            base_url=url, api_key=key, http_client=anthropic.DefaultHttpxClient(event_hooks=hooks, trust_env=False)
        )
        paths = {"/v1/messages": lambda: client.messages.create(model=model, max_tokens=10, messages=HELLO)}
    else:
        client = OpenAI(
            base_url=url + "/v1", api_key=key, http_client=openai.DefaultHttpxClient(event_hooks=hooks, trust_env=False)
        )
        paths = {
            "/v1/chat/completions": lambda: client.chat.completions.create(model=model, messages=HELLO),
            "/v1/responses": lambda: client.responses.create(model=model, input="Hello there"),
        }
    assert client.max_retries == 2
    with client:
        for path, ask in paths.items():
            sent.clear()
            with pytest.raises((anthropic.APIStatusError, openai.APIStatusError)) as caught:
                ask()
            assert caught.value.status_code == status
            assert caught.value.response.headers["x-should-retry"] == "false"
            assert sent == [path]


def test_an_unknown_url(claude):
    with pytest.raises(anthropic.NotFoundError) as caught:
        claude.messages.batches.list()
    assert caught.value.body["error"]["type"] == "not_found_error"


@pytest.mark.parametrize("model", ["demo/cut", "demo/truncate", "demo/error-mid"])
def test_a_broken_stream_never_looks_complete(claude, model):
    seen = []
    with pytest.raises(anthropic.APIError):
        for event in claude.messages.create(model=model, max_tokens=100, messages=HELLO, stream=True):
            seen.append(event.type)
    assert "message_start" in seen and "message_stop" not in seen


def test_the_overflow_that_makes_agents_compact(claude):
    error = refused(claude, anthropic.BadRequestError, model="demo/context")
    assert error.body["error"]["message"].startswith("prompt is too long: ")
