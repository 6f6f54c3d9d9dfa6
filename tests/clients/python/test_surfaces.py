"""The Responses and the Messages API before each kind of upstream, as raw HTTP: what an SDK would hide is looked at here."""

import base64
import gzip
import http.client
import itertools
import json
import os
import socket
import subprocess
import threading
import time

import pytest
from measured import at_most
from processes import ROOT, eventually, running_gateway
from upstreams import PIXEL, SERVER, Answer, upstream

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
MODELS = ["chat/m", "claude/m", "openai/m", "auto/m"]
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
SURFACES = pytest.mark.parametrize("surface", [RESPONSES, MESSAGES], ids=["responses", "messages"])
EACH_MODEL = pytest.mark.parametrize("model", MODELS)
PROMPT = "A question about pelicans"
COST = 0.113  # 70 new, 30 cached and 20 answered tokens at the prices below

CONFIG = """
keepalive_seconds = 1
[routing]
retries = 0
[routing.breaker]
failures = 10000
"""
PROVIDERS = """
[[providers]]
name = "demo"
# An address that answers 404 at /responses.
[[providers]]
name = "chat"
api = "openai"
base_url = "{url}/chat-only"
[[providers]]
name = "auto"
api = "openai"
base_url = "{url}/auto"
responses = "auto"
# The preset has /responses itself.
[[providers]]
name = "openai"
api = "openai"
base_url = "{url}/v1"
api_key = "pk-openai"
[[providers]]
name = "claude"
api = "anthropic"
base_url = "{url}"
api_key = "pk-claude"
[[providers]]
name = "claude2"
api = "anthropic"
base_url = "{url}"
api_key = "pk-claude2"

[[guards]]
match = {{ keys = ["guarded"] }}
max_calls = 2
[[guards]]
match = {{ keys = ["looped"] }}
max_repeats = 2

[[keys]]
name = "a"
key = "sk-a"
[[keys]]
name = "b"
key = "sk-b"
[[keys]]
name = "guarded"
key = "sk-guarded"
[[keys]]
name = "looped"
key = "sk-looped"
[[keys]]
name = "poor"
key = "sk-poor"
budget_usd = 0.000001
[[keys]]
name = "rare"
key = "sk-rare"
rpm = 1
[[keys]]
name = "counted"
key = "sk-counted"
rpm = 1
[[keys]]
name = "narrow"
key = "sk-narrow"
models = ["demo/*"]
[[keys]]
name = "logged"
key = "sk-logged"
log_payloads = true
[[keys]]
name = "admin"
key = "sk-admin"
role = "admin"
"""
PRICED = """
[[models]]
id = "{id}"
pricing = {{ official_input_per_m = 1000, official_output_per_m = 2000, cached_input_per_m = 100, currency = "USD" }}
"""


def configuration(url, more=""):
    priced = "".join(PRICED.format(id=model) for model in [*MODELS, "claude2/m"])
    # `keepalive_seconds` belongs to [server], whose table ends SERVER's first part.
    server, timeouts = SERVER.split("\n[timeouts]")
    return server + CONFIG + "\n[timeouts]" + timeouts + PROVIDERS.format(url=url) + priced + more


class Client:
    """Plain HTTP, so that nothing is between the test and the bytes."""

    def __init__(self, process):
        self.port = int(process.url.rsplit(":", 1)[1])

    def __call__(self, path, body=None, key="sk-a", method=None, raw=None, **headers):
        """The status, the headers in lower case, and the body."""
        sent = {"content-type": "application/json"} | {name.replace("_", "-"): text for name, text in headers.items()}
        if key:
            sent["authorization"] = "Bearer " + key
        data = json.dumps(body).encode() if raw is None and body is not None else raw
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method or ("GET" if data is None else "POST"), path, data, sent)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, text

    def json(self, *arguments, **more):
        status, headers, text = self(*arguments, **more)
        return status, headers, json.loads(text)

    def row(self, request_id):
        """The row of the request log, once it is written."""

        def found():
            status, _, row = self.json("/admin/v1/requests/" + request_id, key="sk-admin")
            return row if status == 200 else None

        return eventually(found)


@pytest.fixture(scope="module")
def up():
    with upstream() as server:
        yield server


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("surfaces")


@pytest.fixture(scope="module")
def call(place, up):
    with running_gateway(place, configuration(up.url)) as process:
        yield Client(process)


# --- What the upstreams say ---------------------------------------------------------------------------------------------


def sse(kind, **members):
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **members})}\n\n".encode()


def data(document):
    return f"data: {json.dumps(document)}\n\n".encode()


IDS = itertools.count(1)


def saying(text="Oslo.", thinking=None, calls=(), end="stop", cut=None, wait=None):
    """An upstream of all dialects. `cut` ends a stream after its first delta: "eof", "reset" or "error"; `wait` is waited for
    there."""

    def answer(request):
        if "/chat-only/responses" in request.path or "/auto/responses" in request.path:
            return Answer(status=404, body={"error": {"message": "no such URL", "type": "x", "code": "unknown_url"}})
        body = request.json
        make = {"messages": messages, "responses": responses, "completions": chat}[request.path.split("?")[0].rsplit("/", 1)[1]]
        plain, events = make(body)
        if not body.get("stream"):
            return Answer(body=plain)
        return Answer(pieces=cutting(events), headers={"content-type": "text/event-stream"}, breaks=cut == "reset")

    def cutting(events):
        for event in events:
            yield event
            if b"_delta" in event or b".delta" in event or b'"content": "' in event:
                if wait:
                    wait()
                if cut in ("eof", "reset"):
                    return
                if cut == "error":
                    yield b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"boom"}}\n\n'
                    return

    def chat(body):
        said = {"role": "assistant", "content": None if calls else text}
        if thinking:
            said["reasoning_content"] = thinking
        if calls:
            said["tool_calls"] = [
                {"id": number, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
                for number, name, arguments in calls
            ]
        details = {"prompt_tokens_details": {"cached_tokens": 30}, "completion_tokens_details": {"reasoning_tokens": 5}}
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120} | details
        reason = "tool_calls" if calls else end
        head = {"id": "c", "created": 1, "model": body["model"]}
        deltas = [{"reasoning_content": thinking}] if thinking else []
        if calls:
            # Two calls that arrive at one time, as some engines send them.
            parts = [{"index": index, **one} for index, one in enumerate(said["tool_calls"])]
            deltas += [{"tool_calls": [part | {"function": part["function"] | {"arguments": ""}}]} for part in parts]
            for half in (slice(0, 5), slice(5, None)):
                for part in parts:
                    piece = part["function"]["arguments"][half]
                    deltas.append({"tool_calls": [{"index": part["index"], "function": {"arguments": piece}}]})
        else:
            deltas += [{"content": text[:2]}, {"content": text[2:]}]

        def chunk(delta, reason=None):
            return data(head | {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

        events = [chunk({"role": "assistant"}), *map(chunk, deltas), chunk({}, reason)]
        if (body.get("stream_options") or {}).get("include_usage"):
            events.append(data(head | {"object": "chat.completion.chunk", "choices": [], "usage": usage}))
        choice = {"index": 0, "message": said, "finish_reason": reason}
        plain = head | {"object": "chat.completion", "choices": [choice], "usage": usage}
        return plain, [*events, b"data: [DONE]\n\n"]

    def messages(body):
        blocks = [{"type": "thinking", "thinking": thinking, "signature": "SIG"}] if thinking else []
        blocks += [{"type": "tool_use", "id": number, "name": name, "input": arguments} for number, name, arguments in calls]
        blocks += [] if calls else [{"type": "text", "text": text}]
        usage = {"input_tokens": 70, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 0, "output_tokens": 20}
        stop = "tool_use" if calls else {"stop": "end_turn", "length": "max_tokens"}[end]
        head = {"id": f"msg_up{next(IDS)}", "type": "message", "role": "assistant", "model": body["model"]}
        plain = head | {"content": blocks, "stop_reason": stop, "stop_sequence": None, "usage": usage}
        events = [sse("message_start", message=plain | {"content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}})]
        for index, block in enumerate(blocks):
            if block["type"] == "thinking":
                start = {"type": "thinking", "thinking": "", "signature": ""}
                deltas = [{"type": "thinking_delta", "thinking": thinking}, {"type": "signature_delta", "signature": "SIG"}]
            elif block["type"] == "text":
                start = {"type": "text", "text": ""}
                deltas = [{"type": "text_delta", "text": part} for part in (text[:2], text[2:])]
            else:
                start = block | {"input": {}}
                deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
            events.append(sse("content_block_start", index=index, content_block=start))
            events += [sse("content_block_delta", index=index, delta=delta) for delta in deltas]
            events.append(sse("content_block_stop", index=index))
        events.append(sse("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage=usage))
        return plain, [*events, sse("message_stop")]

    def responses(body):
        number = next(IDS)
        output = []
        if thinking:
            summary = [{"type": "summary_text", "text": thinking}]
            output.append({"id": f"rs_up{number}", "type": "reasoning", "summary": summary, "encrypted_content": "ENC"})
        for place, (call_id, name, arguments) in enumerate(calls):
            item = {"id": f"fc_up{number}{place}", "type": "function_call", "status": "completed", "call_id": call_id}
            output.append(item | {"name": name, "arguments": json.dumps(arguments)})
        if not calls:
            part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            item = {"id": f"msg_up{number}", "type": "message", "role": "assistant", "content": [part]}
            output.append(item | {"status": "completed" if end == "stop" else "incomplete"})
        status = "completed" if end == "stop" else "incomplete"
        nothing = dict.fromkeys(
            "error instructions max_output_tokens max_tool_calls previous_response_id prompt_cache_key safety_identifier user".split()
        )
        usage = {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 30}, "output_tokens": 20, "total_tokens": 120}
        whole = nothing | {
            "id": f"resp_up{number}", "object": "response", "created_at": 5, "completed_at": 6 if end == "stop" else None,
            "status": status, "incomplete_details": None if end == "stop" else {"reason": "max_output_tokens"},
            "background": False, "model": body["model"], "output": output, "parallel_tool_calls": True, "presence_penalty": 0,
            "frequency_penalty": 0, "reasoning": {"effort": None, "summary": None}, "service_tier": "default", "store": False,
            "temperature": 1.0, "text": {"format": {"type": "text"}, "verbosity": "medium"}, "tool_choice": "auto",
            "tools": body.get("tools", []), "top_logprobs": 0, "top_p": 1.0, "truncation": "disabled", "metadata": {},
            "usage": usage | {"output_tokens_details": {"reasoning_tokens": 5}},
        }  # fmt: skip
        early = whole | {"status": "in_progress", "output": [], "usage": None, "completed_at": None, "incomplete_details": None}
        steps = [("response.created", {"response": early}), ("response.in_progress", {"response": early})]
        for index, item in enumerate(output):
            at = {"item_id": item["id"], "output_index": index}
            if item["type"] == "reasoning":
                part = at | {"summary_index": 0}
                steps.append(("response.output_item.added", {"output_index": index, "item": item | {"summary": []}}))
                steps.append(("response.reasoning_summary_part.added", part | {"part": {"type": "summary_text", "text": ""}}))
                steps.append(("response.reasoning_summary_text.delta", part | {"delta": thinking}))
                steps.append(("response.reasoning_summary_text.done", part | {"text": thinking}))
                steps.append(("response.reasoning_summary_part.done", part | {"part": item["summary"][0]}))
            elif item["type"] == "function_call":
                empty = item | {"arguments": "", "status": "in_progress"}
                steps.append(("response.output_item.added", {"output_index": index, "item": empty}))
                steps.append(("response.function_call_arguments.delta", at | {"delta": item["arguments"]}))
                done = at | {"name": item["name"], "arguments": item["arguments"]}
                steps.append(("response.function_call_arguments.done", done))
            else:
                part = at | {"content_index": 0}
                empty = item | {"content": [], "status": "in_progress"}
                steps.append(("response.output_item.added", {"output_index": index, "item": empty}))
                steps.append(("response.content_part.added", part | {"part": item["content"][0] | {"text": ""}}))
                for piece in (text[:2], text[2:]):
                    steps.append(("response.output_text.delta", part | {"delta": piece, "logprobs": []}))
                steps.append(("response.output_text.done", part | {"text": text, "logprobs": []}))
                steps.append(("response.content_part.done", part | {"part": item["content"][0]}))
            steps.append(("response.output_item.done", {"output_index": index, "item": item}))
        steps.append(("response." + status, {"response": whole}))
        return whole, [sse(kind, sequence_number=place, **members) for place, (kind, members) in enumerate(steps)]

    return answer


def failing(status, message="No.", kind="api_error"):
    def answer(request):
        if "/chat-only/responses" in request.path or "/auto/responses" in request.path:
            return Answer(status=404, body={"error": {"message": "no such URL", "type": "x", "code": "unknown_url"}})
        error = {"type": kind, "message": message}
        return Answer(status=status, body={"type": "error", "error": error} if request.path == "/v1/messages" else {"error": error})

    return answer


# --- What a client reads ------------------------------------------------------------------------------------------------

MEMBERS = """id object created_at completed_at status incomplete_details model previous_response_id instructions output error tools
tool_choice truncation parallel_tool_calls text top_p presence_penalty frequency_penalty top_logprobs temperature reasoning usage
max_output_tokens max_tool_calls store background service_tier metadata safety_identifier prompt_cache_key""".split()


def request(surface, model, text=PROMPT, streamed=False, **more):
    """The same question on each surface."""
    if surface == RESPONSES:
        body = {"model": model, "input": text, "max_output_tokens": 100}
    else:
        body = {"model": model, "messages": [{"role": "user", "content": text}]}
        body["max_tokens" if surface == MESSAGES else "max_completion_tokens"] = 100
    if streamed:
        body["stream"] = True
        if surface == CHAT:
            body["stream_options"] = {"include_usage": True}
    return body | more


def read(text):
    """The events of a stream: (name, data), (":", None) for a comment, ("[DONE]", None)."""
    events = []
    for block in filter(None, text.decode().split("\n\n")):
        fields = dict(line.split(": ", 1) if not line.startswith(":") else (":", line) for line in block.split("\n"))
        if ":" in fields:
            events.append((":", None))
        elif fields["data"] == "[DONE]":
            events.append(("[DONE]", None))
        else:
            events.append((fields.get("event"), json.loads(fields["data"])))
    return events


def complete(response):
    """Checks that a snapshot has all members."""
    assert [name for name in MEMBERS if name not in response] == []
    assert response["usage"] is None or set(response["usage"]) >= {
        "input_tokens", "input_tokens_details", "output_tokens", "output_tokens_details", "total_tokens"
    }  # fmt: skip
    assert (response["completed_at"] is not None) == (response["status"] == "completed")
    return response


def fold_responses(text):
    """The final response of a stream. Checks the order, the numbers and the positions of all events."""
    events = [event for event in read(text) if event[0] != ":"]
    assert events.pop() == ("[DONE]", None)
    assert [name for name, _ in events] == [event["type"] for _, event in events]
    assert [event["sequence_number"] for _, event in events] == list(range(len(events)))
    assert events[0][0] == "response.created"
    assert sum(name in ("response.completed", "response.incomplete", "response.failed") for name, _ in events) == 1
    final = complete(events[-1][1]["response"])
    output, is_open = [], False
    for name, event in events:
        if "response" in event:
            assert complete(event["response"])["id"] == final["id"]
        elif name == "response.output_item.added":
            assert not is_open and event["output_index"] == len(output)
            output.append(event["item"])
            is_open = True
            assert not event["item"].get("content") and not event["item"].get("arguments")
        elif name == "response.content_part.added":
            assert event["content_index"] == len(output[-1]["content"])
            output[-1]["content"].append(event["part"])
        elif name == "response.output_text.delta":
            assert event["item_id"] == output[-1]["id"] and event["logprobs"] == []
            output[-1]["content"][event["content_index"]]["text"] += event["delta"]
        elif name == "response.reasoning_summary_part.added":
            output[-1]["summary"] = [*output[-1]["summary"], event["part"]]
        elif name == "response.reasoning_summary_text.delta":
            output[-1]["summary"][event["summary_index"]]["text"] += event["delta"]
        elif name == "response.function_call_arguments.delta":
            output[-1]["arguments"] += event["delta"]
        elif name == "response.custom_tool_call_input.delta":
            output[-1]["input"] += event["delta"]
        elif name == "response.output_item.done":
            folded = {key: value for key, value in output[-1].items() if key not in ("status", "encrypted_content")}
            assert folded == {key: event["item"][key] for key in folded}
            output[-1], is_open = event["item"], False
    assert output == final["output"]
    return final


def fold_messages(text):
    """The message of a stream. Checks that one block is open at a time."""
    events = [event for event in read(text) if event[0] not in (":", "ping")]
    assert [name for name, _ in events] == [event["type"] for _, event in events]
    assert [events[0][0], events[-2][0], events[-1][0]] == ["message_start", "message_delta", "message_stop"]
    message, is_open = events[0][1]["message"], False
    assert message["content"] == [] and message["usage"]["input_tokens"] > 0
    for name, event in events[1:-2]:
        if name == "content_block_start":
            assert not is_open and event["index"] == len(message["content"])
            message["content"].append(event["content_block"] | {"json": ""})
            is_open = True
            continue
        block = message["content"][-1]
        assert is_open and event["index"] == len(message["content"]) - 1
        if name == "content_block_stop":
            is_open = False
            arguments = block.pop("json")
            if arguments:
                block["input"] = json.loads(arguments)
            continue
        delta = event["delta"]
        kind = delta["type"]
        member = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature", "input_json_delta": "json"}[kind]
        block[member] += delta[{"json": "partial_json"}.get(member, member)]
    last = events[-2][1]
    return message | last["delta"] | {"usage": message["usage"] | last["usage"], "gateway": last["gateway"]}


def ask(call, surface, model, streamed, text=PROMPT, key="sk-a", headers=None, **more):
    """The answer on a surface, put together from its stream if it is one."""
    status, got, answer = call(surface, request(surface, model, text, streamed, **more), key=key, **(headers or {}))
    assert status == 200, answer
    if not streamed:
        return got, json.loads(answer)
    return got, (fold_responses if surface == RESPONSES else fold_messages)(answer)


def said(surface, answer):
    """The texts and calls of an answer, the same for both surfaces."""
    if surface == MESSAGES:
        kinds = {"text": lambda b: b["text"], "thinking": lambda b: b["thinking"], "tool_use": lambda b: [b["id"], b["name"], b["input"]]}
        return [kinds[block["type"]](block) for block in answer["content"]]
    kinds = {
        "message": lambda item: "".join(part["text"] for part in item["content"]),
        "reasoning": lambda item: "".join(part["text"] for part in item["summary"]),
        "function_call": lambda item: [item["call_id"], item["name"], json.loads(item["arguments"])],
    }
    return [kinds[item["type"]](item) for item in answer["output"]]


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = {
    RESPONSES: [{"type": "function", "name": "get_weather", "parameters": SCHEMA}],
    MESSAGES: [{"name": "get_weather", "input_schema": SCHEMA}],
}
TWO_CALLS = [("call_1", "get_weather", {"city": "Oslo"}), ("call_2", "get_weather", {"city": "Rome"})]


# --- Shapes -------------------------------------------------------------------------------------------------------------


@STREAMED
@EACH_MODEL
@SURFACES
def test_a_text(call, up, surface, model, streamed):
    up.reset(saying())
    headers, answer = ask(call, surface, model, streamed)
    assert said(surface, answer) == ["Oslo."]
    assert headers["x-gateway-model"] == model and headers["x-gateway-provider"] == model.split("/")[0]
    assert headers["x-gateway-cache"] == "BYPASS"
    assert headers["x-request-id"] == answer["gateway"]["request_id"]
    assert answer["usage"]["cost_usd"] == COST
    if not streamed:
        assert headers["x-gateway-cost-usd"] == str(COST)
    if surface == MESSAGES:
        assert headers["request-id"] == headers["x-request-id"]
        assert answer["stop_reason"] == "end_turn" and answer["stop_sequence"] is None
        counts = [answer["usage"][name] for name in ("input_tokens", "cache_read_input_tokens", "output_tokens")]
        assert counts == [70, 30, 20]
    else:
        complete(answer)
        assert answer["status"] == "completed" and answer["usage"]["total_tokens"] == 120
        assert answer["usage"]["input_tokens_details"]["cached_tokens"] == 30


@STREAMED
@EACH_MODEL
@SURFACES
def test_thinking_and_two_calls_at_one_time(call, up, surface, model, streamed):
    up.reset(saying(thinking="Hm.", calls=TWO_CALLS))
    _, answer = ask(call, surface, model, streamed, tools=TOOLS[surface])
    assert said(surface, answer) == ["Hm.", *map(list, TWO_CALLS)]
    assert answer.get("stop_reason", answer.get("status")) == ("tool_use" if surface == MESSAGES else "completed")


@STREAMED
@EACH_MODEL
@SURFACES
def test_an_answer_that_reaches_its_limit(call, up, surface, model, streamed):
    up.reset(saying(end="length"))
    _, answer = ask(call, surface, model, streamed)
    if surface == MESSAGES:
        assert answer["stop_reason"] == "max_tokens"
    else:
        assert (answer["status"], answer["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
        assert answer["output"][0]["status"] == "incomplete"


@STREAMED
@EACH_MODEL
@SURFACES
def test_a_plain_client_gets_no_extra_members(call, up, surface, model, streamed):
    up.reset(saying())
    status, headers, text = call(surface, request(surface, model, streamed=streamed), x_gateway_plain="true")
    assert status == 200 and headers["x-gateway-model"] == model
    assert b"gateway" not in text and b"cost_usd" not in text


@STREAMED
@pytest.mark.parametrize("model", ["demo/chat", *MODELS])
def test_the_log_is_the_same_on_each_surface(call, up, model, streamed):
    up.reset(saying())
    rows = []
    for surface in (CHAT, RESPONSES, MESSAGES):
        status, headers, _ = call(surface, request(surface, model, streamed=streamed))
        assert status == 200
        row = call.row(headers["x-request-id"])
        assert row["surface"] == surface.rsplit("/", 1)[1].replace("completions", "chat")
        rows.append({name: row[name] for name in row if name.endswith(("tokens", "_usd", "_hit", "_used", "status", "model"))})
        assert row["cost_usd"] == (0 if model == "demo/chat" else COST)
    assert rows[0] == rows[1] == rows[2]


# --- The cases of the Open Responses compliance suite, under their names -------------------------------------------------

PDF = base64.b64encode(b"%PDF-1.4\n%%EOF\n").decode()
IMAGE_PART = {"type": "input_image", "image_url": "data:image/png;base64," + PIXEL, "detail": "auto"}
FILE_PART = {"type": "input_file", "filename": "paper.pdf", "file_data": "data:application/pdf;base64," + PDF}
COMPLIANCE = {
    "basic-response": ({"input": "Say hello in three words."}, []),
    "streaming-response": ({"input": "Count from 1 to 5.", "stream": True}, []),
    "system-prompt": ({"input": "Say hello.", "instructions": "You are a pirate."}, ["You are a pirate."]),
    "tool-calling": ({"input": "What is the weather in Oslo?", "tools": TOOLS[RESPONSES]}, ["get_weather"]),
    "function-call-roundtrip": (
        {
            "input": [
                {"type": "message", "role": "user", "content": "What is the weather in Oslo?"},
                {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city":"Oslo"}'},
                {"type": "function_call_output", "call_id": "call_1", "output": "12 degrees"},
            ],
            "tools": TOOLS[RESPONSES],
        },
        ["call_1", "12 degrees"],
    ),
    "image-input": ({"input": [{"role": "user", "content": [{"type": "input_text", "text": "What is it?"}, IMAGE_PART]}]}, [PIXEL]),
    "file-input": ({"input": [{"role": "user", "content": [{"type": "input_text", "text": "Read it."}, FILE_PART]}]}, [PDF]),
    "multi-turn": (
        {
            "input": [
                {"type": "message", "role": "user", "content": "My name is Alice."},
                {"type": "message", "role": "assistant", "content": "Hello Alice!"},
                {"type": "message", "role": "user", "content": "What is my name?"},
            ]
        },
        ["My name is Alice.", "Hello Alice!", "What is my name?"],
    ),
}


@EACH_MODEL
@pytest.mark.parametrize("case", COMPLIANCE)
def test_open_responses(call, up, case, model):
    body, sent = COMPLIANCE[case]
    calls = TWO_CALLS[:1] if case == "tool-calling" else ()
    up.reset(saying(calls=calls))
    status, _, text = call(RESPONSES, {"model": model, **body})
    assert status == 200, text
    answer = fold_responses(text) if body.get("stream") else complete(json.loads(text))
    assert (answer["object"], answer["status"], answer["error"]) == ("response", "completed", None)
    assert said(RESPONSES, answer) == ([list(one) for one in calls] or ["Oslo."])
    received = up.last.body.decode()
    places = [received.find(json.dumps(part)[1:-1]) for part in sent]
    assert -1 not in places and places == sorted(places)


@pytest.mark.parametrize("case", ["basic-response", "streaming-response", "system-prompt", "function-call-roundtrip", "multi-turn"])
def test_open_responses_offline(call, case):
    status, _, text = call(RESPONSES, {"model": "demo/chat", **COMPLIANCE[case][0]})
    assert status == 200
    answer = fold_responses(text) if b"event:" in text else complete(json.loads(text))
    assert answer["status"] == "completed" and said(RESPONSES, answer)[0]


@EACH_MODEL
def test_open_responses_previous_response_id(call, up, model):
    """The case previous-response-id."""
    up.reset(saying("Hello Alice!"))
    first = ask(call, RESPONSES, model, False, "My name is Alice.", instructions="Speak like a pirate.")[1]
    second = ask(call, RESPONSES, model, True, "What is my name?", previous_response_id=first["id"])[1]
    assert second["previous_response_id"] == first["id"] and second["id"] != first["id"]
    received = up.last.body.decode()
    places = [received.index(words) for words in ("My name is Alice.", "Hello Alice!", "What is my name?")]
    assert places == sorted(places)
    # Instructions belong to one request.
    assert "pirate" not in received
    # The conversation goes on at a provider of another dialect.
    other = "claude/m" if model != "claude/m" else "openai/m"
    ask(call, RESPONSES, other, False, "And now?", previous_response_id=second["id"])
    received = up.last.body.decode()
    places = [received.index(words) for words in ("My name is Alice.", "Hello Alice!", "What is my name?", "And now?")]
    assert places == sorted(places)


# --- Stored responses ---------------------------------------------------------------------------------------------------


@STREAMED
@EACH_MODEL
def test_a_stored_response(call, up, model, streamed):
    up.reset(saying())
    answer = ask(call, RESPONSES, model, streamed)[1]
    where = RESPONSES + "/" + answer["id"]
    assert answer["store"] is True
    assert call.json(where)[2] == answer
    items = call.json(where + "/input_items")[2]
    assert [item["content"] for item in items["data"]] == [[{"type": "input_text", "text": PROMPT}]]
    assert (items["object"], items["has_more"], items["first_id"]) == ("list", False, items["data"][0]["id"])
    replayed = call(where + "?stream=true")[2]
    assert fold_responses(replayed)["output"] == answer["output"]
    status, _, rest = call(where + "?stream=true&starting_after=3")
    if streamed:
        # The events of the stream had numbers of their own, which are not kept.
        assert (status, json.loads(rest)["error"]["param"]) == (400, "starting_after")
    else:
        assert read(rest) == [event for event in read(replayed) if event[1] is None or event[1]["sequence_number"] > 3]
    status, _, error = call.json(where + "/cancel", {})
    assert (status, error["error"]["type"]) == (400, "invalid_request_error")
    assert call.json(where, method="DELETE")[2] == {"id": answer["id"], "object": "response", "deleted": True}
    assert_gone(call, model, answer["id"], "sk-a")


def assert_gone(call, model, name, key):
    """A response that this key cannot see does not exist, whatever it is asked for."""
    where = RESPONSES + "/" + name
    for path, method in ((where, "GET"), (where, "DELETE"), (where + "/input_items", "GET"), (where + "/cancel", "POST")):
        status, _, error = call.json(path, method=method, key=key)
        assert status == 404 and set(error["error"]) == {"message", "type", "param", "code"}
    for path in (RESPONSES, RESPONSES + "/input_tokens", RESPONSES + "/compact"):
        status, _, error = call.json(path, {"model": model, "input": "x", "previous_response_id": name}, key=key)
        assert (status, error["error"]["code"]) == (400, "previous_response_not_found")
        assert error["error"]["param"] == "previous_response_id"


@EACH_MODEL
def test_a_response_of_another_key_does_not_exist(call, up, model):
    up.reset(saying())
    answer = ask(call, RESPONSES, model, False)[1]
    assert_gone(call, model, answer["id"], "sk-b")
    reference = [{"type": "item_reference", "id": answer["output"][0]["id"]}, {"role": "user", "content": "x"}]
    status, _, error = call.json(RESPONSES, {"model": model, "input": reference}, key="sk-b")
    assert (status, error["error"]["param"]) == (400, "input[0].id")
    assert call.json(RESPONSES + "/" + answer["id"])[0] == 200


@STREAMED
@EACH_MODEL
def test_a_response_that_the_client_does_not_store(call, up, model, streamed):
    up.reset(saying())
    answer = ask(call, RESPONSES, model, streamed, store=False)[1]
    assert answer["store"] is False
    assert_gone(call, model, answer["id"], "sk-a")


def test_a_deleted_response_stays_in_the_conversations_that_went_on(call, up):
    up.reset(saying())
    first = ask(call, RESPONSES, "chat/m", False, "turn one")[1]
    second = ask(call, RESPONSES, "chat/m", False, "turn two", previous_response_id=first["id"])[1]
    assert call(RESPONSES + "/" + first["id"], method="DELETE")[0] == 200
    ask(call, RESPONSES, "chat/m", False, "turn three", previous_response_id=second["id"])
    assert [turn["content"] for turn in up.last.json["messages"]] == ["turn one", "Oslo.", "turn two", "Oslo.", "turn three"]


def test_conversations_are_not_supported(call):
    status, _, error = call.json(RESPONSES, {"model": "chat/m", "input": "x", "conversation": "c"})
    assert (status, error["error"]["code"]) == (400, "unsupported_parameter")


def files_with(folder, words):
    return [path.name for path in folder.rglob("*") if path.is_file() and words in path.read_bytes()]


def test_memory_writes_nothing_to_the_disk(call, up, place):
    up.reset(saying())
    for model in MODELS:
        answer = ask(call, RESPONSES, model, False, "marked-pelican")[1]
        call.row(answer["gateway"]["request_id"])
    assert files_with(place / "data", b"marked-pelican") == []


def test_a_store_that_is_off(up, tmp_path):
    with running_gateway(tmp_path, configuration(up.url, '[responses]\nstore = "off"\n')) as process:
        call = Client(process)
        up.reset(saying())
        for model in MODELS:
            answer = ask(call, RESPONSES, model, False, store=True)[1]
            assert answer["store"] is False
            assert call(RESPONSES + "/" + answer["id"])[0] == 404
        status, _, error = call.json(RESPONSES, {"model": "chat/m", "input": "x", "previous_response_id": answer["id"]})
        assert (status, error["error"]["code"]) == (400, "previous_response_not_found")
        assert "store" in error["error"]["message"] and "off" in error["error"]["message"]
        status, _, error = call.json(RESPONSES, {"model": "chat/m", "input": "x", "background": True})
        assert (status, error["error"]["param"]) == (400, "background")


def test_a_store_in_the_database(up, tmp_path):
    config = configuration(up.url, '[responses]\nstore = "database"\n')
    up.reset(saying())
    with running_gateway(tmp_path, config) as process:
        call = Client(process)
        first = ask(call, RESPONSES, "claude/m", False, "marked-pelican")[1]
        assert call(RESPONSES + "/" + first["id"], key="sk-b")[0] == 404
    with running_gateway(tmp_path, config) as process:
        call = Client(process)
        assert call.json(RESPONSES + "/" + first["id"])[2] == first
        ask(call, RESPONSES, "chat/m", False, "next", previous_response_id=first["id"])
        assert "marked-pelican" in up.last.body.decode()
        assert_gone(call, "chat/m", first["id"], "sk-b")
    assert files_with(tmp_path / "data", b"marked-pelican") == []


def test_an_expired_response(up, tmp_path):
    up.reset(saying())
    with running_gateway(tmp_path, configuration(up.url, "[responses]\nttl_seconds = 1\n")) as process:
        call = Client(process)
        answer = ask(call, RESPONSES, "chat/m", False)[1]
        eventually(lambda: call(RESPONSES + "/" + answer["id"])[0] == 404)
        assert_gone(call, "chat/m", answer["id"], "sk-a")


# --- Background ---------------------------------------------------------------------------------------------------------


@EACH_MODEL
def test_a_streamed_response_in_the_background(call, up, model):
    up.reset(saying())
    answer = ask(call, RESPONSES, model, True, background=True)[1]
    assert (answer["status"], answer["background"]) == ("completed", True)
    kept = eventually(lambda: poll(call, answer["id"]))
    assert kept["output"] == answer["output"] and kept["usage"] == answer["usage"]


def poll(call, name):
    """A response that is no longer made."""
    response = complete(call.json(RESPONSES + "/" + name)[2])
    return None if response["status"] in ("queued", "in_progress") else response


@EACH_MODEL
def test_a_background_response_is_polled(call, up, model):
    up.reset(saying())
    status, _, first = call.json(RESPONSES, request(RESPONSES, model, background=True))
    assert (status, complete(first)["status"], first["background"], first["output"]) == (200, "queued", True, [])
    done = eventually(lambda: poll(call, first["id"]))
    assert (done["status"], done["error"]) == ("completed", None)
    assert said(RESPONSES, done) == ["Oslo."] and done["usage"]["cost_usd"] == COST


@EACH_MODEL
def test_a_background_response_is_cancelled(call, up, model):
    reached, release = threading.Event(), threading.Event()
    script = saying()

    def held(request):
        answer = script(request)
        if answer.status == 200:
            reached.set()
            release.wait(30)
        return answer

    up.reset(held)
    try:
        first = call.json(RESPONSES, request(RESPONSES, model, background=True))[2]
        # A request that reaches the upstream after its cancellation would be counted by a later test.
        assert reached.wait(30)
        where = RESPONSES + "/" + first["id"]
        assert call(where, key="sk-b")[0] == 404 and call(where + "/cancel", {}, key="sk-b")[0] == 404
        for _ in range(2):
            status, _, cancelled = call.json(where + "/cancel", {})
            assert (status, complete(cancelled)["status"]) == (200, "cancelled")
        assert call.json(where)[2]["status"] == "cancelled"
    finally:
        release.set()


def test_a_background_response_needs_a_store(call):
    status, _, error = call.json(RESPONSES, {"model": "chat/m", "input": "x", "background": True, "store": False})
    assert (status, error["error"]["param"]) == (400, "background")


# --- Errors -------------------------------------------------------------------------------------------------------------

TYPES = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
    405: "invalid_request_error", 413: "request_too_large", 415: "invalid_request_error", 429: "rate_limit_error",
    502: "api_error", 529: "overloaded_error",
}  # fmt: skip


def check_error(surface, status, headers, text):
    """The error of a surface, in its shape."""
    body = json.loads(text)
    if surface.startswith(MESSAGES):
        assert set(body) == {"type", "error", "request_id"} and set(body["error"]) == {"type", "message"}
        assert body["type"] == "error" and body["request_id"] == headers["request-id"] == headers["x-request-id"]
        return body["error"]
    assert set(body) == {"error"} and set(body["error"]) == {"message", "type", "param", "code"}
    assert all(isinstance(value, str) for value in body["error"].values())
    return body["error"]


PATHS = [MESSAGES, MESSAGES + "/count_tokens", RESPONSES, RESPONSES + "/input_tokens", RESPONSES + "/compact"]
BOMB = gzip.compress(b'{"x":"' + b"a" * (64 << 20) + b'"}')
REFUSED = {
    "no-key": (401, {"key": None, "raw": b"{}"}),
    "wrong-key": (401, {"key": "sk-wrong", "raw": b"{}"}),
    "two-keys": (401, {"x_api_key": "sk-b", "raw": b"{}"}),
    "not-json": (400, {"raw": b"{nope"}),
    "no-object": (400, {"raw": b"[]"}),
    "empty": (400, {"raw": b""}),
    "not-utf8": (400, {"raw": b'{"model":"\xff"}'}),
    "deep": (400, {"raw": b'{"model":"chat/m","input":' + b"[" * 100_000 + b"]" * 100_000 + b"}"}),
    "text": (415, {"raw": b"{}", "content_type": "text/plain"}),
    "brotli": (415, {"raw": b"{}", "content_encoding": "br"}),
    "no-gzip": (400, {"raw": b"{}", "content_encoding": "gzip"}),
    "gzip-bomb": (413, {"raw": BOMB, "content_encoding": "gzip"}),
    "too-large": (413, {"raw": b'{"x":"' + b"a" * (33 << 20) + b'"}'}),
    "no-model": (400, {"raw": b'{"max_tokens":5}'}),
    "wrong-method": (405, {"method": "PATCH", "raw": b"{}"}),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_request(call, up, path, case):
    up.reset(saying())
    expected, options = REFUSED[case]
    status, headers, text = call(path, **options)
    assert status == expected
    error = check_error(path, status, headers, text)
    if path.startswith(MESSAGES):
        assert error["type"] == TYPES[status]
    assert ("allow" in headers) == (status == 405) and ("www-authenticate" in headers) == (status == 401)
    assert up.requests == []


@pytest.mark.parametrize("key", ["sk-a", None], ids=["key", "no-key"])
@pytest.mark.parametrize("path", ["/v1/messages/batches", "/v1/messages/count_tokens/x", "/v1/responses/x/y", "/v1/responses/a/b/c"])
def test_an_unknown_url(call, path, key):
    status, headers, text = call(path, {}, key=key)
    error = check_error(path, status, headers, text)
    assert status == (404 if key else 401)
    if path.startswith(MESSAGES):
        assert error["type"] == TYPES[status]
    else:
        assert error["code"] == ("unknown_url" if key else "invalid_api_key")


@SURFACES
def test_either_header_holds_the_key(call, surface):
    body = request(surface, "demo/chat")
    assert call(surface, body, key=None, x_api_key="sk-a")[0] == 200
    assert call(surface, body, x_api_key="sk-a")[0] == 200


@SURFACES
def test_models_that_a_key_cannot_use(call, surface):
    for model, key, expected in (("no/such", "sk-a", 404), ("chat/m", "sk-narrow", 403)):
        status, headers, text = call(surface, request(surface, model), key=key)
        error = check_error(surface, status, headers, text)
        assert status == expected
        if surface == MESSAGES:
            assert error["type"] == TYPES[status]


# The upstream's status; ours on Responses, ours on Messages, whether SDKs should give up.
UPSTREAM_ERRORS = {400: (400, 400, 1), 401: (502, 502, 1), 402: (502, 502, 1), 429: (429, 429, 0), 500: (502, 502, 0), 503: (503, 529, 0)}


@STREAMED
@EACH_MODEL
@SURFACES
@pytest.mark.parametrize("theirs", UPSTREAM_ERRORS)
def test_an_upstream_that_refuses(call, up, surface, model, theirs, streamed):
    on_responses, on_messages, gives_up = UPSTREAM_ERRORS[theirs]
    up.reset(failing(theirs))
    status, headers, text = call(surface, request(surface, model, streamed=streamed))
    error = check_error(surface, status, headers, text)
    assert status == (on_messages if surface == MESSAGES else on_responses)
    assert headers["x-should-retry"] == ("false" if gives_up else "true")
    assert ("retry-after" in headers) == (status in (429, 503, 529))
    if surface == MESSAGES:
        assert error["type"] == TYPES[status]
    assert "pk-" not in text.decode() and "127.0.0.1" not in text.decode()


@STREAMED
@EACH_MODEL
def test_a_prompt_that_is_too_long(call, up, model, streamed):
    words = "prompt is too long: 9001 tokens > 8192 maximum"
    theirs = words if model == "claude/m" else "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."
    up.reset(failing(400, theirs, "invalid_request_error"))
    status, headers, text = call(MESSAGES, request(MESSAGES, model, streamed=streamed))
    assert (status, check_error(MESSAGES, status, headers, text)) == (400, {"type": "invalid_request_error", "message": words})
    status, headers, text = call(RESPONSES, request(RESPONSES, model, streamed=streamed))
    assert (status, check_error(RESPONSES, status, headers, text)["code"]) == (400, "context_length_exceeded")


@SURFACES
def test_a_budget_that_is_used_up(call, up, surface):
    up.reset(saying())
    status, headers, text = call(surface, request(surface, "chat/m"), key="sk-poor")
    error = check_error(surface, status, headers, text)
    assert (status, headers["x-should-retry"]) == (429, "false")
    assert error["type"] == ("billing_error" if surface == MESSAGES else "insufficient_quota")
    assert up.requests == []


def test_a_rate_limit_of_the_key(call):
    assert call(MESSAGES, request(MESSAGES, "demo/chat"), key="sk-rare")[0] == 200
    for surface in (MESSAGES, RESPONSES):
        status, headers, text = call(surface, request(surface, "demo/chat"), key="sk-rare")
        assert (status, check_error(surface, status, headers, text)["type"]) == (429, "rate_limit_error")
        assert 1 <= int(headers["retry-after"]) <= 60


# --- Streams that break -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", ["eof", "reset", "error"])
@EACH_MODEL
@SURFACES
def test_a_stream_that_breaks_never_looks_complete(call, up, surface, model, cut):
    up.reset(saying(cut=cut))
    status, headers, text = call(surface, request(surface, model, streamed=True))
    events = read(text)
    assert status == 200
    if surface == MESSAGES:
        assert events[-1][0] == "error" and set(events[-1][1]["error"]) == {"type", "message"}
        assert not {"message_delta", "message_stop"} & {name for name, _ in events}
    else:
        assert [name for name, _ in events[-3:]] == ["error", "response.failed", "[DONE]"]
        error = events[-3][1]
        assert error["error"]["message"] == error["message"] and error["error"]["code"] == error["code"]
        assert "param" in error and "param" in error["error"]
        failed = complete(events[-2][1]["response"])
        assert (failed["status"], failed["error"]["code"]) == ("failed", "server_error")
        assert [event["sequence_number"] for _, event in events[:-1]] == list(range(len(events) - 1))
        assert failed["output"][0]["content"][0]["text"] == "Os" and failed["output"][0]["status"] == "incomplete"
    row = call.row(headers["x-request-id"])
    assert row["status"] == "upstream_stream_error" and row["cost_usd"] > 0


@EACH_MODEL
@SURFACES
def test_a_client_that_leaves_stops_the_upstream(call, up, surface, model):
    gone = []
    script = saying()

    def drip(request):
        answer = script(request)
        if answer.pieces is None:
            return answer
        pieces = list(answer.pieces)
        delta = next(place for place, piece in enumerate(pieces) if b'Os"' in piece)

        def slowly():
            try:
                yield from pieces[:delta]
                for _ in range(600):
                    yield pieces[delta]
                    time.sleep(0.05)
            finally:
                gone.append(request.path)

        return Answer(pieces=slowly(), headers=answer.headers)

    up.reset(drip)
    body = json.dumps(request(surface, model, streamed=True)).encode()
    head = f"POST {surface} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-a\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", call.port)) as client:
        client.sendall(head.encode() + body)
        got = b""
        while b'Os"' not in got:
            got += client.recv(4096)
    request_id = got.split(b"x-request-id: ")[1].split(b"\r\n")[0].decode()
    row = call.row(request_id)
    assert row["status"] == "client_closed_request" and row["cost_usd"] > 0
    assert eventually(lambda: gone) != []


@EACH_MODEL
@SURFACES
def test_a_silent_upstream_is_bridged(call, up, surface, model):
    up.reset(saying(wait=lambda: time.sleep(2.5)))
    status, _, text = call(surface, request(surface, model, streamed=True))
    names = [name for name, _ in read(text)]
    if surface == MESSAGES:
        assert "ping" in names[3:]
        assert fold_messages(text)["content"] == [{"type": "text", "text": "Oslo."}]
    else:
        assert names.count("response.in_progress") >= 2
        assert said(RESPONSES, fold_responses(text)) == ["Oslo."]


# --- Routing and the cache ----------------------------------------------------------------------------------------------


@STREAMED
@pytest.mark.parametrize(("first", "second"), [("chat/m", "claude/m"), ("claude/m", "openai/m"), ("openai/m", "chat/m")])
@SURFACES
def test_a_fallback_to_another_dialect(call, up, surface, first, second, streamed):
    places = {"chat/m": "/chat-only", "claude/m": "/v1/messages", "openai/m": "/v1/"}
    down, works = failing(500), saying()

    def is_first(path):
        return path.startswith(places[first]) and (first != "openai/m" or path != "/v1/messages")

    up.reset(lambda request: (down if is_first(request.path) else works)(request))
    headers, answer = ask(call, surface, first, streamed, routing={"fallback": [second]})
    assert headers["x-gateway-model"] == answer["gateway"]["model_used"] == second
    assert answer["gateway"]["fallback_used"] is True and said(surface, answer) == ["Oslo."]
    assert answer["usage"]["cost_usd"] == COST


@pytest.mark.parametrize("order", list(itertools.permutations([CHAT, RESPONSES, MESSAGES])), ids=lambda order: "-".join(p.rsplit("/")[-1] for p in order))
@EACH_MODEL
def test_the_cache_answers_each_dialect(call, up, model, order):
    up.reset(saying())
    text, all_known = f"{PROMPT}: {order}", set()
    # A provider that speaks the client's dialect gets other bytes, so its answers are found by that dialect alone.
    native = {"claude/m": MESSAGES, "openai/m": RESPONSES}.get(model)
    for surface in order:
        known = surface != native and bool(all_known - {native})
        status, headers, answer = call.json(surface, request(surface, model, text, cache={"enabled": True}))
        assert status == 200 and headers["x-gateway-cache"] == ("HIT" if known else "MISS")
        assert answer["usage"]["cost_usd"] == (0 if known else COST)
        assert answer["gateway"].get("saved_usd") == (COST if known else None)
        all_known.add(surface)
    sent = len(up.requests)
    for surface in (RESPONSES, MESSAGES):
        headers, answer = ask(call, surface, model, True, text, cache={"enabled": True})
        assert headers["x-gateway-cache"] == "HIT" and said(surface, answer) == ["Oslo."]
    assert len(up.requests) == sent
    # What one key was told is no answer for another.
    assert call(RESPONSES, request(RESPONSES, model, text, cache={"enabled": True}), key="sk-b")[1]["x-gateway-cache"] == "MISS"
    assert len(up.requests) > sent


def test_the_cache_tells_conversations_apart(call, up):
    up.reset(saying())
    ann = ask(call, RESPONSES, "chat/m", False, "I am Ann")[1]["id"]
    bob = ask(call, RESPONSES, "chat/m", False, "I am Bob")[1]["id"]
    found = []
    for previous in (ann, bob, ann):
        headers, answer = ask(call, RESPONSES, "chat/m", False, "Who am I?", previous_response_id=previous, cache={"enabled": True})
        assert answer["previous_response_id"] == previous
        found.append(headers["x-gateway-cache"])
    assert found == ["MISS", "MISS", "HIT"]


# --- Reasoning that is sealed -------------------------------------------------------------------------------------------


def history(blocks, model):
    turns = [{"role": "user", "content": PROMPT}, {"role": "assistant", "content": blocks}, {"role": "user", "content": "And?"}]
    return {"model": model, "max_tokens": 100, "messages": turns}


def test_a_sealed_signature_returns_only_to_its_account(call, up):
    up.reset(saying(thinking="Hm."))
    blocks = ask(call, MESSAGES, "claude/m", False)[1]["content"]
    signature = blocks[0]["signature"]
    assert signature.startswith("gw1.") and "SIG" not in json.dumps(blocks)
    flipped = signature[:40] + ("A" if signature[40] != "A" else "B") + signature[41:]
    for target, seal, returns in (
        ("claude/m", signature, True),
        ("claude2/m", signature, False),
        ("chat/m", signature, False),
        ("openai/m", signature, False),
        ("claude/m", flipped, False),
        ("claude/m", "gw1.", False),
        ("claude/m", "gw1.!", False),
    ):
        status, _, answer = call.json(MESSAGES, history([blocks[0] | {"signature": seal}, *blocks[1:]], target))
        assert status == 200
        assert ("reasoning_dropped" in answer["gateway"]["warnings"]) != returns
        received = up.last.body.decode()
        assert ('"signature": "SIG"' in received) == returns and "gw1." not in received
        assert "Oslo." in received


def test_sealed_reasoning_of_a_responses_upstream(call, up):
    up.reset(saying(thinking="Hm."))
    items = ask(call, RESPONSES, "openai/m", True, store=False)[1]["output"]
    seal = items[0]["encrypted_content"]
    assert seal.startswith("gw1.")
    flipped = seal[:40] + ("A" if seal[40] != "A" else "B") + seal[41:]
    for target, content, returns in (("openai/m", seal, True), ("openai/m", flipped, False), ("claude/m", seal, False), ("chat/m", seal, False)):
        turns = [{"role": "user", "content": PROMPT}, items[0] | {"encrypted_content": content}, *items[1:], {"role": "user", "content": "And?"}]
        status, _, answer = call.json(RESPONSES, {"model": target, "input": turns, "store": False})
        assert status == 200
        assert ("reasoning_dropped" in answer["gateway"]["warnings"]) != returns
        received = up.last.body.decode()
        assert ('"ENC"' in received) == returns and "gw1." not in received


# --- Forwarding in the client's own dialect ------------------------------------------------------------------------------


def test_a_message_is_forwarded_byte_for_byte(call, up):
    up.reset(saying())
    sent = (
        b'{ "model" : "claude/m","max_tokens":100,"messages":[{"role":"user","content":'
        b'[{"type":"text","text":"hi","cache_control":{"type":"ephemeral","ttl":"1h"}}]}],"context_management":{"a":[1.50,1e3,"\\u00e9\xc3\xa9"]},"system":'
        b'[{"type":"text","text":"x-anthropic-billing-header: cc_version=1; cch=2"}],"metadata":{"user_id":"u"} }'
    )
    betas = {"anthropic_version": "2023-06-01", "anthropic_beta": "a-1,b-2"}
    status, _, _ = call(MESSAGES + "?beta=true", raw=sent, x_stainless_os="Linux", cookie="c=1", anthropic_other="yes", **betas)
    assert status == 200
    assert up.last.body == sent.replace(b"claude/m", b"m") and up.last.path.startswith("/v1/messages")
    assert [up.last.header(name.replace("_", "-")) for name in betas] == list(betas.values())
    assert up.last.header("x-api-key") == "pk-claude"
    assert [up.last.header(name) for name in ("authorization", "cookie", "x-stainless-os", "anthropic-other")] == [None] * 4


def test_the_attribution_line_goes_to_no_other_upstream(call, up):
    up.reset(saying())
    system = [{"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=2"}, {"type": "text", "text": "Be kind"}]
    call(MESSAGES, request(MESSAGES, "chat/m", system=system))
    assert up.last.json["messages"][0] == {"role": "system", "content": "Be kind"}


def test_auto_asks_for_responses_once(up, tmp_path):
    with running_gateway(tmp_path, configuration(up.url)) as process:
        call = Client(process)
        up.reset(saying())
        for _ in range(3):
            ask(call, RESPONSES, "auto/m", False)
        assert [one.path for one in up.requests] == ["/auto/responses"] + ["/auto/chat/completions"] * 3


# --- Sessions, guards, payloads, load ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("surface", "headers", "members", "session"),
    [
        (MESSAGES, {"x_gateway_session": "g", "x_claude_code_session_id": "c"}, {"metadata": {"user_id": "u"}}, "g"),
        (MESSAGES, {"x_claude_code_session_id": "c"}, {"metadata": {"user_id": "u"}}, "c"),
        (MESSAGES, {}, {"metadata": {"user_id": "u"}}, "u"),
        (RESPONSES, {"session_id": "s"}, {"prompt_cache_key": "p"}, "s"),
        (RESPONSES, {"conversation_id": "v"}, {"prompt_cache_key": "p"}, "v"),
        (RESPONSES, {}, {"prompt_cache_key": "p", "metadata": {"user_id": "u"}}, "p"),
    ],
)
def test_the_session_of_a_request(call, surface, headers, members, session):
    _, got, _ = call(surface, request(surface, "demo/chat", **members), **headers)
    assert call.row(got["x-request-id"])["session"] == session


def test_a_guard_counts_the_calls_of_both_surfaces(call, up):
    up.reset(saying())
    for surface in (RESPONSES, MESSAGES):
        assert call(surface, request(surface, "chat/m"), key="sk-guarded", x_gateway_session="run")[0] == 200
    sent = len(up.requests)
    for surface in (RESPONSES, MESSAGES):
        status, headers, text = call(surface, request(surface, "chat/m"), key="sk-guarded", x_gateway_session="run")
        error = check_error(surface, status, headers, text)
        assert (status, headers["x-should-retry"]) == (429, "false") and "max_calls" in error["message"]
        assert error.get("code", "billing_error") == ("session_limit_reached" if surface == RESPONSES else error["type"])
    assert call(MESSAGES, request(MESSAGES, "chat/m"), key="sk-guarded", x_gateway_session="next")[0] == 200
    assert len(up.requests) == sent + 1


@SURFACES
def test_a_guard_finds_a_loop(call, surface):
    spellings = ['{"a": 1, "b": "é"}', '{"b":"\\u00e9","a":1}', '{ "b": "é", "a": 1 }']
    for times, expected in ((2, 200), (3, 429)):
        items, turns = [{"role": "user", "content": "q"}], [{"role": "user", "content": "q"}]
        for number, arguments in enumerate(spellings[:times]):
            items.append({"type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": arguments})
            items.append({"type": "function_call_output", "call_id": f"c{number}", "output": "r"})
            use = {"type": "tool_use", "id": f"c{number}", "name": "f", "input": json.loads(arguments)}
            result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "r"}
            turns += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
        body = {"input": items} if surface == RESPONSES else {"messages": turns, "max_tokens": 9}
        status, _, text = call(surface, {"model": "demo/chat", **body}, key="sk-looped", x_gateway_session=surface)
        assert status == expected
    assert "max_repeats" in text.decode()


@STREAMED
@EACH_MODEL
@SURFACES
def test_a_payload_has_the_prompt_and_the_answer(call, up, surface, model, streamed):
    up.reset(saying("Oslo is the answer."))
    text = PROMPT + " of bob@example.com"
    _, headers, _ = call(surface, request(surface, model, text, streamed), key="sk-logged")
    payload = eventually(lambda: call.row(headers["x-request-id"]).get("payload"))
    assert PROMPT in payload["request"] and "Oslo is the answer." in payload["response"]
    assert "bob@example.com" not in payload["request"]


def test_large_bodies_leave_the_others_alone(call, up):
    up.reset(saying())
    over, slowest = threading.Event(), []

    def probe():
        while not over.is_set():
            began = time.monotonic()
            assert call("/healthz", key=None)[0] == 200
            slowest.append(time.monotonic() - began)

    prober = threading.Thread(target=probe)
    prober.start()
    try:
        pairs = []
        for number in range(5000):
            pairs.append({"type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": "{}"})
            pairs.append({"type": "function_call_output", "call_id": f"c{number}", "output": "o"})
        long = {"type": "function_call", "call_id": "c", "name": "f", "arguments": json.dumps({"a": "x" * (1 << 20)})}
        result = {"type": "function_call_output", "call_id": "c", "output": "o"}
        turns = [{"role": "user", "content": "x"}] * 100_000
        for model in ("chat/m", "claude/m", "openai/m"):
            assert call(RESPONSES, {"model": model, "input": pairs})[0] == 200
            assert call(RESPONSES, {"model": model, "input": [long, result]})[0] == 200
            status, headers, text = call(MESSAGES, {"model": model, "max_tokens": 5, "messages": turns})
            assert status == 400 and "messages" in check_error(MESSAGES, status, headers, text)["message"]
    finally:
        over.set()
        prober.join()
    at_most("seconds of /healthz beside large bodies", max(slowest), 2)


# --- What the answers of both surfaces owe besides ------------------------------------------------------------------------


@pytest.mark.parametrize("setting", ["true", "false", '"auto"'])
def test_the_setting_responses(tmp_path, setting):
    config = f'[[providers]]\nname = "x"\napi = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nresponses = {setting}\n'
    (tmp_path / "gateway.toml").write_text(config)
    binary = os.environ.get("MODEL_GATEWAY_BIN", str(ROOT / "target/debug/model-gateway"))
    checked = subprocess.run([binary, "check", "--config", tmp_path / "gateway.toml"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("surface", [RESPONSES, MESSAGES])
def test_the_cost_header_of_a_request_with_the_cache(call, up, surface):
    up.reset(saying())
    body = request(surface, "chat/m", f"{PROMPT}: the cost on {surface}", cache={"enabled": True}) | {"temperature": len(surface) / 100}
    costs = [call(surface, body)[1].get("x-gateway-cost-usd") for _ in range(2)]
    assert costs == [str(COST), "0"]


def test_a_foreign_signature_is_left_out(call, up):
    up.reset(saying())
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "EqQBCkgIARABGAIiQFor"}
    answer = call.json(MESSAGES, history([thinking, {"type": "text", "text": "Oslo."}], "claude/m"))[2]
    assert "EqQBCkgI" not in up.last.body.decode()
    assert "reasoning_dropped" in answer["gateway"]["warnings"]


@STREAMED
@pytest.mark.parametrize("model", ["chat/m", "auto/m"])
def test_plain_reasoning_has_a_signature_of_the_gateway(call, up, model, streamed):
    up.reset(saying(thinking="Hm."))
    block = ask(call, MESSAGES, model, streamed)[1]["content"][0]
    assert (block["type"], block["thinking"]) == ("thinking", "Hm.")
    assert block["signature"].startswith("gw1.")


def test_an_upstream_that_counts_tokens_is_asked(call, up):
    up.reset(lambda request: Answer(body={"input_tokens": 77}))
    body = {"model": "claude/m", "messages": [{"role": "user", "content": PROMPT}]}
    _, headers, count = call.json(MESSAGES + "/count_tokens", body)
    assert (count, headers["x-gateway-token-count"]) == ({"input_tokens": 77}, "upstream")


def test_reasoning_that_returns_is_not_called_dropped(call, up):
    up.reset(saying(thinking="Hm."))
    more = {"reasoning": {"effort": "high"}, "max_output_tokens": 20_000, "store": False}
    items = call.json(RESPONSES, {"model": "claude/m", "input": PROMPT, **more})[2]["output"]
    turns = [{"role": "user", "content": PROMPT}, *items, {"role": "user", "content": "And?"}]
    answer = call.json(RESPONSES, {"model": "claude/m", "input": turns, **more})[2]
    assert up.last.json["messages"][1]["content"][0] == {"type": "thinking", "thinking": "Hm.", "signature": "SIG"}
    assert answer["gateway"]["warnings"] == []


@STREAMED
@pytest.mark.parametrize("model", ["chat/m", "claude/m", "auto/m"])
def test_a_custom_tool_on_other_upstreams_is_a_function(call, up, model, streamed):
    up.reset(saying(calls=[("call_1", "apply_patch", {"input": "*** Begin\n\"é\""})]))
    tools = [{"type": "custom", "name": "apply_patch", "description": "Patches.", "format": {"type": "text"}}]
    status, _, text = call(RESPONSES, request(RESPONSES, model, streamed=streamed, tools=tools))
    assert status == 200
    sent = up.last.json["tools"][0]
    schema = sent["input_schema"] if model == "claude/m" else sent["function"]["parameters"]
    assert schema["properties"] == {"input": {"type": "string"}}
    answer = fold_responses(text) if streamed else json.loads(text)
    item = answer["output"][0]
    assert [item[name] for name in ("type", "call_id", "name", "input")] == ["custom_tool_call", "call_1", "apply_patch", '*** Begin\n"é"']


@STREAMED
@pytest.mark.parametrize("model", ["chat/m", "claude/m", "auto/m"])
def test_a_tool_in_a_namespace_keeps_both_names(call, up, model, streamed):
    up.reset(saying(calls=[("call_1", "mcp__git__log", {"n": 1})]))
    function = {"type": "function", "name": "log", "parameters": SCHEMA}
    tools = [{"type": "namespace", "name": "mcp__git", "description": "Git.", "tools": [function]}]
    answer = ask(call, RESPONSES, model, streamed, tools=tools)[1]
    item = answer["output"][0]
    assert [item[name] for name in ("type", "namespace", "name")] == ["function_call", "mcp__git", "log"]


@pytest.mark.parametrize("model", ["chat/m", "claude/m"])
@pytest.mark.parametrize(
    "body",
    [
        {"input": "x", "tools": [{"type": "web_search"}], "tool_choice": "required"},
        {"prompt": {"id": "pmpt_1"}},
        {"input": [{"type": "compaction", "encrypted_content": "foreign"}, {"role": "user", "content": "x"}]},
    ],
    ids=["only-hosted-tools", "prompt", "foreign-compaction"],
)
def test_what_only_a_native_upstream_can_do(call, up, model, body):
    up.reset(saying())
    status, headers, text = call(RESPONSES, {"model": model, **body})
    assert status == 400 and check_error(RESPONSES, status, headers, text)["type"] == "invalid_request_error"
    assert up.requests == []


def test_counting_tokens_counts_in_the_rate_limit(call, up):
    body = {"model": "demo/chat", "messages": [{"role": "user", "content": PROMPT}]}
    assert [call(MESSAGES + "/count_tokens", body, key="sk-counted")[0] for _ in range(3)] == [200, 429, 429]


# --- Models and token counts ---------------------------------------------------------------------------------------------


def test_models_in_the_shape_of_anthropic(call):
    status, _, page = call.json("/v1/models?limit=2", anthropic_version="2023-06-01")
    assert status == 200 and set(page) == {"data", "has_more", "first_id", "last_id"}
    assert len(page["data"]) == 2 and page["has_more"] is True
    assert all(entry["type"] == "model" and {"id", "display_name", "created_at"} <= set(entry) for entry in page["data"])
    following = call.json(f"/v1/models?limit=1000&after_id={page['last_id']}", anthropic_version="2023-06-01")[2]
    assert following["has_more"] is False and page["last_id"] not in [entry["id"] for entry in following["data"]]
    for query, key, expected in (("?limit=0", "sk-a", 400), ("?limit=1001", "sk-a", 400), ("", None, 401)):
        status, headers, text = call("/v1/models" + query, key=key, anthropic_version="2023-06-01")
        assert status == expected and check_error(MESSAGES, status, headers, text)["type"] == TYPES[status]


@EACH_MODEL
def test_tokens_are_counted_without_a_call_for_an_answer(call, up, model):
    def answer(request):
        # An upstream that counts has its own word; no other URL may be asked.
        assert request.path.endswith("/count_tokens")
        return Answer(body={"input_tokens": 77})

    up.reset(answer)
    _, headers, count = call.json(MESSAGES + "/count_tokens", {"model": model, "messages": [{"role": "user", "content": PROMPT}]})
    assert count["input_tokens"] > 0 and headers["x-gateway-token-count"] in ("upstream", "tokenizer", "estimate")
    _, _, count = call.json(RESPONSES + "/input_tokens", {"model": model, "input": PROMPT})
    assert count["object"] == "response.input_tokens" and count["input_tokens"] > 0
    up.check()
