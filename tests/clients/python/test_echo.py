"""An answer of thought, text, thought, a tool call and text in every dialect, given back by the vendors' own SDKs through each
API of the gateway, and by `previous_response_id`: the package of the provider takes the request that the provider gets, and it
has the blocks that the provider gave."""

import base64
import contextlib
import dataclasses
import json
import re
from urllib.parse import unquote

import eventstream
import pytest
from anthropic import Anthropic as AnthropicClient
from anthropic import types as claude
from google.genai import types as gemini
from test_vendors import config
from upstreams import KEY, STREAMED, Answer, ask, function, gateway, history, stream, upstream
from vendors import Anthropic, Azure, Bedrock, ClaudeOnVertex, Cohere, Google, Mistral, Ollama, OpenAi, Vertex
from vendors.anthropic_ import events
from vendors.common import ARGUMENTS, SIGNATURE, THOUGHT, Invalid, load, need
from vendors.openai_ import call_deltas

QUESTION = "What is the weather there?"
TOOL = function("get_weather", city={"type": "string"}, days={"type": "integer"})
SCHEMA = TOOL["function"]["parameters"]
SAID, LAST = "I will look.", "One moment."
# Cohere's text beside a tool call.
PLAN = "A plan."
# The only one that thinks.
COHERE_MODEL = "cohere/command-a-reasoning-08-2025"


def blocks():
    """The answer of a Claude."""
    thought = claude.ThinkingBlock(type="thinking", thinking=THOUGHT, signature=SIGNATURE)
    call = claude.ToolUseBlock(type="tool_use", id="toolu_0", name="get_weather", input=ARGUMENTS, caller=None)
    said, last = (claude.TextBlock(type="text", text=text, citations=None) for text in (SAID, LAST))
    return [thought, said, thought, call, last]


def parts(model):
    """The answer of a Gemini, which signs the call."""
    thought = gemini.Part(text=THOUGHT, thought=True)
    named = {"id": "call-0"} if model.startswith("gemini-3") else {}
    call = gemini.FunctionCall(name="get_weather", args=ARGUMENTS, **named)
    signed = gemini.Part(function_call=call, thought_signature=SIGNATURE.encode())
    return [thought, gemini.Part(text=SAID), thought, signed, gemini.Part(text=LAST)]


class AnyVersion(Anthropic):
    """Anthropic, for requests that the gateway forwards with the version of the API that the client's SDK names."""

    def read(self, request):
        need(request.header("x-api-key") == self.key, "no key")
        return self.checked(load(request.body))


class InvokedOnBedrock(AnyVersion):
    """A Claude on Bedrock that gets the body of a Messages client: "Anthropic Claude Messages API", Amazon Bedrock user guide."""

    key = Bedrock.key
    path = re.compile(r"/model/([^/]+)/(invoke|invoke-with-response-stream)")

    def takes(self, path):
        return self.path.fullmatch(path) is not None

    def read(self, request):
        need(request.header("authorization") == "Bearer " + self.key, "no key")
        model, method = self.path.fullmatch(request.path).groups()
        body = load(request.body)
        need(body.pop("anthropic_version", None) == "bedrock-2023-05-31", "anthropic_version")
        need(not {"model", "stream"} & set(body), "extraneous key")
        asked = self.checked({**body, "model": re.sub(r".*anthropic\.", "", unquote(model))})
        asked.stream = method != "invoke"
        return asked

    def say(self, asked, content, reason):
        if not asked.stream:
            return super().say(asked, content, reason)
        # The same events, each in a frame.
        whole = claude.Message.model_validate_json(super().say(dataclasses.replace(asked, stream=False), content, reason).body)
        bodies = [event.model_dump_json(exclude_unset=True).encode() for event in events(whole)]
        frames = [eventstream.event("chunk", bytes=base64.b64encode(body).decode()) for body in bodies]
        return stream(frames, eventstream.CONTENT_TYPE)


def call(**more):
    """The tool call in OpenAI's dialect."""
    arguments = json.dumps(ARGUMENTS, ensure_ascii=False)
    return {**more, "type": "function", "function": {"name": "get_weather", "arguments": arguments}}


BEDROCK = [
    {"reasoningContent": {"reasoningText": {"text": THOUGHT, "signature": SIGNATURE}}},
    {"text": SAID},
    {"reasoningContent": {"reasoningText": {"text": THOUGHT, "signature": SIGNATURE}}},
    {"toolUse": {"toolUseId": "tooluse_0", "name": "get_weather", "input": ARGUMENTS}},
    {"text": LAST},
]
MISTRAL_THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]}
MISTRAL = [MISTRAL_THOUGHT, {"type": "text", "text": SAID}, MISTRAL_THOUGHT, {"type": "text", "text": LAST}]
COHERE_THOUGHT = {"type": "thinking", "thinking": THOUGHT}
COHERE = [COHERE_THOUGHT, {"type": "text", "text": SAID}, COHERE_THOUGHT, {"type": "text", "text": LAST}]
OLLAMA = {"content": SAID + LAST, "thinking": THOUGHT * 2}
OLLAMA_CALL = {"function": {"name": "get_weather", "arguments": ARGUMENTS}}
OPENAI = {"content": SAID + LAST, "tool_calls": [call(id="call_0")]}


def say_openai(vendor, asked, thinks):
    """Pieces of text, with thoughts between them from providers that show them."""
    thought = [{"reasoning_content": THOUGHT}] if thinks else []
    deltas = [*thought, {"content": SAID}, *thought, *call_deltas(0, call(id="call_0")), {"content": LAST}]
    whole = {**OPENAI, **({"reasoning_content": THOUGHT * 2} if thinks else {})}
    return vendor.say(asked, whole, deltas, extra="allow" if thinks else "forbid")


def say_ollama(vendor, asked):
    pieces = [{"thinking": THOUGHT}, {"content": SAID}, {"thinking": THOUGHT}, {"tool_calls": [OLLAMA_CALL]}]
    return vendor.say(asked, {**OLLAMA, "tool_calls": [OLLAMA_CALL]}, [*pieces, {"content": LAST}])


def say_mistral(vendor, asked):
    return vendor.say(asked, MISTRAL, [[chunk] for chunk in MISTRAL], ["get_weather"])


def say_cohere(vendor, asked):
    message = {"role": "assistant", "content": COHERE, "tool_plan": PLAN, "tool_calls": [call(id="get_weather_0")]}
    return vendor.say(asked, message)


def say_blocks(vendor, asked):
    return vendor.say(asked, blocks(), "tool_use")


class Echo:
    """Answers a question with the five blocks, and what comes back with a text. Notes the faults of the requests."""

    def __init__(self):
        self.sayings = {
            AnyVersion(): say_blocks,
            ClaudeOnVertex(): say_blocks,
            InvokedOnBedrock(): say_blocks,
            Bedrock(): lambda vendor, asked: vendor.say(asked, BEDROCK),
            Google(): lambda vendor, asked: vendor.say(asked, parts(asked.model)),
            Vertex(): lambda vendor, asked: vendor.say(asked, parts(asked.model)),
            Mistral(): say_mistral,
            Cohere(): say_cohere,
            Ollama(): say_ollama,
            Azure(): lambda vendor, asked: say_openai(vendor, asked, thinks=False),
            OpenAi(): lambda vendor, asked: say_openai(vendor, asked, thinks=True),
        }
        self.faults = []

    def __call__(self, request):
        vendor = next((vendor for vendor in self.sayings if vendor.takes(request.path)), None)
        try:
            need(vendor is not None, f"no vendor has the path {request.path}")
            asked = vendor.read(request)
        except Invalid as fault:
            self.faults.append(f"{request.path} refuses the request: {fault}")
            return vendor.refuse(str(fault)) if vendor else Answer({"error": {"message": str(fault)}}, 404)
        return self.sayings[vendor](vendor, asked) if asked.question else vendor.write(asked)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """An OpenAI client of a gateway before these vendors, and their server."""
    with upstream() as server:
        more = f'\n[[models]]\nid = "{COHERE_MODEL}"\n'
        with gateway(tmp_path_factory.mktemp("echo"), "".join(config(server.url)) + more) as client:
            yield client, server


def chat(client, model, streamed):
    messages = [{"role": "user", "content": QUESTION}]
    more = {"model": model, "tools": [TOOL], "reasoning_effort": "high", "max_tokens": 4000}
    message = ask(client, streamed, messages=messages, **more).choices[0].message
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny"}
    ask(client, streamed, messages=[*messages, history(message), result], **more)


def previous(client, model, streamed):
    """The Responses API, whose second request names the first response."""
    responses(client, model, streamed, by_id=True)


def responses(client, model, streamed, by_id=False):
    asked = [{"role": "user", "content": QUESTION}]
    tool = {"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}
    more = {"model": model, "tools": [tool], "reasoning": {"effort": "high"}, "max_output_tokens": 4000}
    if not by_id:
        more |= {"store": False, "include": ["reasoning.encrypted_content"]}

    def create(**request):
        if not streamed:
            return client.responses.create(**request, **more)
        with client.responses.stream(**request, **more) as events:
            return events.get_final_response()

    first = create(input=asked)
    call = next(item for item in first.output if item.type == "function_call")
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    if by_id:
        create(input=[result], previous_response_id=first.id)
    else:
        create(input=[*asked, *(item.model_dump(exclude_none=True) for item in first.output), result])


def messages(client, model, streamed):
    asked = [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}]
    tool = {"name": "get_weather", "input_schema": SCHEMA}
    more = {"model": model, "tools": [tool], "max_tokens": 4000, "thinking": {"type": "adaptive", "display": "summarized"}}
    url = str(client.base_url).removesuffix("/v1/")

    def create(sdk, turns):
        if not streamed:
            return sdk.messages.create(messages=turns, **more)
        with sdk.messages.stream(messages=turns, **more) as events:
            return events.get_final_message()

    with contextlib.closing(AnthropicClient(base_url=url, api_key=KEY, auth_token=None, max_retries=0)) as sdk:
        content = create(sdk, asked).content
        call = next(block for block in content if block.type == "tool_use")
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
        create(sdk, [*asked, {"role": "assistant", "content": content}, {"role": "user", "content": [result]}])


def gemini_turn(model):
    """The turn as the package writes it."""
    written = [json.loads(part.model_dump_json(by_alias=True, exclude_none=True)) for part in parts(model)]
    for part in written:
        # The package writes the other alphabet of base64.
        if "thoughtSignature" in part:
            part["thoughtSignature"] = part["thoughtSignature"].replace("-", "+").replace("_", "/")
    return {"role": "model", "parts": written}


def claude_turn(_):
    return {"role": "assistant", "content": [json.loads(block.model_dump_json(exclude_none=True)) for block in blocks()]}


@dataclasses.dataclass
class Dialect:
    """A model of the dialect, and the assistant's turn of a request to it."""

    name: str
    model: str
    turn: object
    # The turn after an answer through these surfaces, where it is another.
    elsewhere: dict = dataclasses.field(default_factory=dict)

    def expected(self, surface):
        return self.elsewhere.get(surface, self.turn)(self.model.split("/")[1])


def cohere_turn(_):
    return {"role": "assistant", "content": COHERE, "tool_plan": PLAN, "tool_calls": [call(id="get_weather_0")]}


def cohere_turn_without_plan(_):
    """Only a chat has a place for the plan. Elsewhere it stands before the first text."""
    first = {"type": "text", "text": f"{PLAN}\n{SAID}"}
    content = [COHERE_THOUGHT, first, *COHERE[2:]]
    return {"role": "assistant", "content": content, "tool_calls": [call(id="get_weather_0")]}


DIALECTS = [
    Dialect("anthropic", "anthropic/claude-opus-5-5", claude_turn),
    Dialect("vertex-claude", "vertex/claude-opus-5-5", claude_turn),
    Dialect("bedrock", "amazon/claude-opus-5-5", lambda _: {"role": "assistant", "content": BEDROCK}, {messages: claude_turn}),
    Dialect("gemini", "google/gemini-3.5-flash", gemini_turn),
    Dialect("vertex", "vertex/gemini-2.5-pro", gemini_turn),
    Dialect(
        "mistral",
        "mistral/mistral-small-2603",
        lambda _: {"role": "assistant", "content": MISTRAL, "tool_calls": [call(id="callcall0")]},
    ),
    Dialect(
        "cohere",
        COHERE_MODEL,
        cohere_turn,
        dict.fromkeys((responses, previous, messages), cohere_turn_without_plan),
    ),
    Dialect(
        "ollama", "local/qwen3:8b", lambda _: {"role": "assistant", **OLLAMA, "tool_calls": [OLLAMA_CALL]}
    ),
    Dialect(
        "openai",
        "deepseek/deepseek-v4-pro",
        lambda _: {"role": "assistant", **OPENAI, "reasoning_content": THOUGHT * 2},
    ),
    Dialect("azure", "azure/gpt-5-mini", lambda _: {"role": "assistant", **OPENAI}),
]


def came(body, surface):
    """The assistant's turns of a request, without what no client could give back."""
    turns = [turn for turn in body.get("messages") or body["contents"] if turn["role"] in ("assistant", "model")]
    for turn in turns:
        if isinstance(turn.get("content"), list):
            # Anthropic's SDK gives null members back, too, and the gateway forwards them.
            turn["content"] = [
                {name: value for name, value in block.items() if value is not None} for block in turn["content"]
            ]
        for entry in turn.get("tool_calls") or []:
            function = entry["function"]
            if isinstance(function["arguments"], dict):
                # Ollama names its calls in none of the package's types, so the gateway does.
                entry.pop("id")
            elif surface is messages:
                # The Messages API has an object in the place of the text.
                function["arguments"] = json.dumps(json.loads(function["arguments"]), ensure_ascii=False)
    return turns


@STREAMED
@pytest.mark.parametrize("surface", [chat, responses, previous, messages], ids=lambda surface: surface.__name__)
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_the_vendors_types_take_what_their_sdks_give_back(both, dialect, surface, streamed):
    client, server = both
    echo = Echo()
    server.reset(echo)
    surface(client, dialect.model, streamed)
    server.check()
    assert echo.faults == []
    assert len(server.requests) == 2
    assert came(server.requests[-1].json, surface) == [dialect.expected(surface)]
