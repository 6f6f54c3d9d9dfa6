"""An answer of thought, text, thought, a tool call and text, given back by the vendors' own SDKs through each API of the gateway: the
types of `google-genai` and of `anthropic` take the request that the provider gets, and it has the blocks that the provider gave."""

import contextlib
import json

import pytest
from anthropic import Anthropic as AnthropicClient
from anthropic import types as claude
from google.genai import types as gemini
from test_vendors import config
from upstreams import KEY, STREAMED, ask, function, gateway, history, upstream
from vendors import Anthropic, ClaudeOnVertex, Google, Vertex
from vendors.common import ARGUMENTS, SIGNATURE, THOUGHT, Invalid, load, need

QUESTION = "What is the weather there?"
TOOL = function("get_weather", city={"type": "string"}, days={"type": "integer"})
SCHEMA = TOOL["function"]["parameters"]
SAID, LAST = "I will look.", "One moment."


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


class Echo:
    """Answers a question with the five blocks, and what comes back with a text. Notes the faults of the requests."""

    def __init__(self):
        self.vendors = [AnyVersion(), ClaudeOnVertex(), Google(), Vertex()]
        self.faults = []

    def __call__(self, request):
        vendor = next(vendor for vendor in self.vendors if vendor.takes(request.path))
        try:
            asked = vendor.read(request)
        except Invalid as fault:
            self.faults.append(f"{vendor.api} refuses the request: {fault}")
            return vendor.refuse(str(fault))
        if not asked.question:
            return vendor.write(asked)
        if isinstance(vendor, Google):
            return vendor.say(asked, parts(asked.model))
        return vendor.say(asked, blocks(), "tool_use")


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """An OpenAI client of a gateway before these vendors, and their server."""
    with upstream() as server, gateway(tmp_path_factory.mktemp("echo"), "".join(config(server.url))) as client:
        yield client, server


def chat(client, model, streamed):
    messages = [{"role": "user", "content": QUESTION}]
    more = {"model": model, "tools": [TOOL], "reasoning_effort": "high", "max_tokens": 4000}
    message = ask(client, streamed, messages=messages, **more).choices[0].message
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny"}
    ask(client, streamed, messages=[*messages, history(message), result], **more)


def responses(client, model, streamed):
    asked = [{"role": "user", "content": QUESTION}]
    tool = {"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}
    more = {"model": model, "tools": [tool], "reasoning": {"effort": "high"}, "max_output_tokens": 4000, "store": False}

    def create(items):
        if not streamed:
            return client.responses.create(input=items, **more, include=["reasoning.encrypted_content"])
        with client.responses.create(
            input=items, stream=True, **more, include=["reasoning.encrypted_content"]
        ) as events:
            return [event.response for event in events if event.type == "response.completed"][0]

    output = create(asked).output
    call = next(item for item in output if item.type == "function_call")
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    create([*asked, *(item.model_dump(exclude_none=True) for item in output), result])


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


def expected(model):
    """The blocks of the answer, as the types of the vendor write them."""
    name = model.split("/")[1]
    if "claude" in model:
        return [json.loads(block.model_dump_json(exclude_none=True)) for block in blocks()]
    written = [json.loads(part.model_dump_json(by_alias=True, exclude_none=True)) for part in parts(name)]
    for part in written:
        # The package writes the other alphabet of base64.
        if "thoughtSignature" in part:
            part["thoughtSignature"] = part["thoughtSignature"].replace("-", "+").replace("_", "/")
    return written


@STREAMED
@pytest.mark.parametrize("surface", [chat, responses, messages], ids=lambda surface: surface.__name__)
@pytest.mark.parametrize(
    "model",
    ["anthropic/claude-opus-5-5", "vertex/claude-opus-5-5", "google/gemini-3.5-flash", "vertex/gemini-2.5-pro"],
)
def test_the_vendors_types_take_what_their_sdks_give_back(both, model, surface, streamed):
    client, server = both
    echo = Echo()
    server.reset(echo)
    surface(client, model, streamed)
    server.check()
    assert echo.faults == []
    body = server.requests[-1].json
    turns = body["messages"] if "claude" in model else body["contents"]
    answers = [turn for turn in turns if turn["role"] in ("assistant", "model")]
    content = answers[0]["content" if "claude" in model else "parts"]
    # Anthropic's SDK gives null members back, too, and the gateway forwards them.
    content = [{name: value for name, value in block.items() if value is not None} for block in content]
    assert (len(answers), content) == (1, expected(model))
