"""Anthropic: the `anthropic` package. Its types are those of API version 2026-10-21; the gateway names 2023-06-01."""

import json
import re

from anthropic import types
from anthropic._models import FinalRequestOptions
from anthropic.lib.vertex._client import _prepare_options
from anthropic.types import message_create_params
from upstreams import Answer, stream

from .common import (
    ANSWER_TOKENS,
    ARGUMENTS,
    PROMPT_TOKENS,
    SIGNATURE,
    THOUGHT,
    Asked,
    Shape,
    load,
    is_question,
    need,
    reply_to,
    sse,
)

BODY = Shape(message_create_params.MessageCreateParams)
# Version 2026-10-21 has no sampling parameters for any model; 2023-06-01 has them with these bounds ("API versions" and
# "Create a Message", platform.claude.com, read 2026-11-22), for the models before Opus 4.7 ("What's new in Claude 4.7").
SAMPLING = {"temperature": (0, 1), "top_p": (0, 1)}

# Requests that single models refuse with status 400, although the types allow them. Each line: the documentation and the models.
# "Prefill not supported", platform.claude.com/docs/en/api/errors: Claude 4.6 and everything after it.
NO_PREFILL = re.compile(r"claude-(?!haiku-4-5|opus-4-5|sonnet-4-5|3)")
# "What's new in Claude 4.7" and later pages of that name: non-default sampling parameters are refused.
NO_SAMPLING = re.compile(r"claude-(?!haiku-4|opus-4-[56]|sonnet-4|3)")
# "What's new in Claude Opus 5.5", "… Fable 5.1", "… Sonnet 5.5": forced tool use is an error.
NO_FORCED_TOOLS = re.compile(r"claude-(opus-5-5|sonnet-5-5|(fable|mythos)-5-[12])")
# "Thinking" (platform.claude.com/docs/en/build-with-claude/thinking): budgets up to Claude 4.6 …
NO_BUDGET = re.compile(r"claude-(?!haiku-4-5|opus-4-[56]|sonnet-4-[56]|3)")
# … adaptive from 4.6 on …
NO_ADAPTIVE = re.compile(r"claude-(haiku-4-5|opus-4-5|sonnet-4-5|3)")
# … and off for all but these.
NO_DISABLED = re.compile(r"claude-(opus-5-5|sonnet-5-5|(fable|mythos)-5)")
# "Effort": max from 4.6 on, xhigh from 4.7 on; Haiku 4.5 and Sonnet 4.5 have none.
NO_EFFORT = re.compile(r"claude-(haiku-4-5|sonnet-4-5|3)")
NO_XHIGH = re.compile(r"claude-(opus-4-[56]|sonnet-4-6)")
NO_MAX = re.compile(r"claude-opus-4-5")
# "Structured outputs": Claude 4.5 and later.
NO_FORMAT = re.compile(r"claude-(opus-4-1|3)")


class Anthropic:
    api = "anthropic"
    key = "anthropic-test-key"

    def takes(self, path):
        return path == "/v1/messages"

    def read(self, request):
        need(request.header("x-api-key") == self.key, "no key")
        need(request.header("anthropic-version") == "2023-06-01", "another version of the API")
        return self.checked(load(request.body))

    def checked(self, body):
        sampled = {name: body.pop(name) for name in SAMPLING if name in body}
        for name, value in sampled.items():
            low, high = SAMPLING[name]
            need(
                type(value) in (int, float) and low <= value <= high, f"{name}: {value} is not between {low} and {high}"
            )
        BODY.check(body)
        check_model(body, sampled)
        return self.asked(body)

    def asked(self, body):
        choice = body.get("tool_choice", {})
        names = [tool["name"] for tool in body.get("tools", [])]
        if choice.get("type") == "tool":
            need(choice["name"] in names, f"tool_choice: no tool is called {choice['name']}")
        forced = {"any": names, "tool": [choice.get("name")]}.get(choice.get("type"), [])
        if choice.get("type") == "none":
            names = []
        thinking = body.get("thinking", {}).get("type")
        return Asked(
            model=body["model"],
            stream=body.get("stream", False),
            tools=names[:1] if choice.get("disable_parallel_tool_use") else names,
            forced=forced,
            question=any(is_question(block.get("text")) for block in body["messages"][-1]["content"]),
            json="format" in body.get("output_config", {}) or "JSON" in str(body.get("system", "")),
            thinks=thinking in ("enabled", "adaptive"),
        )

    def refuse(self, message):
        error = types.ErrorResponse(
            type="error", error=types.InvalidRequestError(type="invalid_request_error", message=message)
        )
        return Answer(error.model_dump_json().encode(), 400)

    def write(self, asked):
        said = reply_to(asked)
        blocks = []
        if said.thought:
            blocks.append(types.ThinkingBlock(type="thinking", thinking=said.thought, signature=SIGNATURE))
        if said.text:
            blocks.append(types.TextBlock(type="text", text=said.text, citations=None))
        for at, name in enumerate(said.calls):
            blocks.append(
                types.ToolUseBlock(type="tool_use", id=f"toolu_{at}", name=name, input=ARGUMENTS, caller=None)
            )
        return self.say(asked, blocks, "tool_use" if said.calls else "end_turn")

    def say(self, asked, blocks, reason):
        """An answer of these blocks."""
        usage = types.Usage.construct(input_tokens=PROMPT_TOKENS, output_tokens=ANSWER_TOKENS)
        whole = types.Message.construct(
            id="msg_1",
            type="message",
            role="assistant",
            model=asked.model,
            content=blocks,
            stop_reason=reason,
            stop_sequence=None,
            usage=usage,
        )
        if not asked.stream:
            return Answer(whole.model_dump_json(exclude_unset=True).encode())
        bodies = [event.model_dump_json(exclude_unset=True) for event in events(whole)]
        return stream(sse(*bodies, kind=lambda body: load(body)["type"]), "text/event-stream")


class ClaudeOnVertex(Anthropic):
    """Claude on Vertex AI: `anthropic.AnthropicVertex` must make of the request the request that came."""

    api = "vertex-claude"
    key = "vertex-test-token"
    path = re.compile(
        r"/v1(/projects/a-project/locations/europe-west4/publishers/anthropic/models/([^:?]+):(?:rawPredict|streamRawPredict))"
    )

    def takes(self, path):
        return self.path.fullmatch(path) is not None

    def read(self, request):
        need(request.header("authorization") == "Bearer " + self.key, "no token")
        need(request.header("anthropic-version") is None, "the version of the API stands in the body")
        url, model = self.path.fullmatch(request.path).groups()
        body = load(request.body)
        need("model" not in body, "model: Extra inputs are not permitted")
        # The package's own default is 2026-10-21, which has no sampling parameters; this is the older one, as at Anthropic.
        need(body.get("anthropic_version") == "vertex-2023-10-16", "anthropic_version: another version of the API")
        own = {name: value for name, value in body.items() if name != "anthropic_version"}
        options = FinalRequestOptions(method="post", url="/v1/messages", json_data={"model": model, **body})
        options = _prepare_options(options, project_id="a-project", region="europe-west4")
        need((options.url, options.json_data) == (url, body), f"the package sends {options.url} {options.json_data}")
        # "Vision", platform.claude.com, read 2026-11-22: "Claude Models on Google Cloud (Google managed)": base64 sources only.
        need('"type": "url"' not in json.dumps(body), "source.type: url is not supported")
        return self.checked({"model": model, **own})


def check_model(body, sampled):
    """The rules of the model's pages, and the rules for every model."""
    model, last = body["model"], body["messages"][-1]
    thinking, choice = body.get("thinking", {}), body.get("tool_choice", {}).get("type")
    effort = body.get("output_config", {}).get("effort")
    forces = choice in ("any", "tool")
    if last["role"] == "assistant":
        need(not NO_PREFILL.match(model), "This model does not support assistant message prefill.")
        # "Extended thinking", Feature compatibility.
        need(thinking.get("type") != "enabled", "thinking: an answer that thinks cannot be prefilled")
        text = last["content"] if isinstance(last["content"], str) else last["content"][-1].get("text", "")
        need(text == text.rstrip(), "messages: final assistant content cannot end with trailing whitespace")
    need(not (sampled and NO_SAMPLING.match(model)), f"{', '.join(sampled)}: not supported by this model")
    # "Create a Message": one of the two from Claude 4.5 on.
    need(len(sampled) < 2, "temperature and top_p cannot both be specified for this model")
    if forces:
        need(not NO_FORCED_TOOLS.match(model), "tool_choice: this model does not support forced tool use")
        # "Thinking", Feature compatibility: `auto` and `none` alone.
        need(
            thinking.get("type", "disabled") == "disabled",
            "Thinking may not be enabled when tool_choice forces tool use.",
        )
    if thinking.get("type") == "enabled":
        need(not NO_BUDGET.match(model), "thinking: budgets are not supported by this model")
        # `ThinkingConfigEnabledParam`.
        need(1024 <= thinking["budget_tokens"] < body["max_tokens"], "budget_tokens: ≥1024 and less than max_tokens")
        need(
            not sampled or sampled == {"temperature": 1} or sampled.get("top_p", 0) >= 0.95,
            "thinking: temperature may only be 1",
        )
    need(
        not (thinking.get("type") == "adaptive" and NO_ADAPTIVE.match(model)),
        "thinking: adaptive is not supported by this model",
    )
    need(
        not (thinking.get("type") == "disabled" and NO_DISABLED.match(model)),
        "thinking: cannot be disabled for this model",
    )
    need(
        thinking.get("type") != "between_tools" or model.startswith("claude-sonnet-5-5"),
        "thinking: between_tools is Sonnet 5.5's",
    )
    need(not (effort and NO_EFFORT.match(model)), "output_config: this model does not support effort")
    need(
        not (effort == "xhigh" and NO_XHIGH.match(model)), "output_config.effort: xhigh is not supported by this model"
    )
    need(not (effort == "max" and NO_MAX.match(model)), "output_config.effort: max is not supported by this model")
    need(
        "format" not in body.get("output_config", {}) or not NO_FORMAT.match(model),
        "output_config.format: not supported",
    )
    check_schema(body.get("output_config", {}).get("format", {}).get("schema"))
    check_turns(body["messages"], thinking.get("type") == "enabled")


# "Structured outputs", JSON Schema limitations, platform.claude.com.
REFUSED = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"}
REFUSED |= {"maxItems", "uniqueItems", "minProperties", "maxProperties"}


def check_schema(schema):
    """The schema of an answer has nothing that the page names as not supported."""
    if not isinstance(schema, dict):
        return
    unknown = sorted(REFUSED & set(schema))
    need(not unknown, f"output_config.format.schema: property '{', '.join(unknown)}' is not supported")
    need(schema.get("minItems", 0) in (0, 1), "output_config.format.schema: minItems is 0 or 1")
    if schema.get("type") == "object":
        closed = schema.get("additionalProperties") is False
        need(closed, "output_config.format.schema: 'additionalProperties' must be false")
    for name in ("properties", "$defs", "definitions"):
        for inner in schema.get(name, {}).values():
            check_schema(inner)
    for inner in [schema.get("items"), *schema.get("anyOf", []), *schema.get("allOf", [])]:
        check_schema(inner)


def check_turns(messages, thinks):
    """The page "How to implement tool use": each call has its result in the next turn, and the results come first there."""
    need(messages[0]["role"] == "user", "messages: the first message is the user's")
    for at, message in enumerate(messages):
        blocks = message["content"] if isinstance(message["content"], list) else []
        need(blocks or message["content"], f"messages.{at}: empty content")
        for block in blocks:
            # "Create a Message": "messages: text content blocks must be non-empty".
            need(
                block["type"] != "text" or block["text"].strip(),
                f"messages.{at}: text content blocks must be non-empty",
            )
            # "Thinking", Preserving thinking blocks: they come back as they were, signature and all.
            if block["type"] == "thinking":
                unchanged = (block["thinking"], block["signature"]) == (THOUGHT, SIGNATURE)
                need(unchanged, f"messages.{at}: Invalid `signature` in `thinking` block")
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if not calls:
            continue
        if thinks and at == len(messages) - 2:
            first = blocks[0]["type"] in ("thinking", "redacted_thinking")
            need(first, f"messages.{at}: a final `assistant` message must start with a thinking block")
        need(at + 1 < len(messages), f"messages.{at}: tool_use without tool_result")
        results = [block["tool_use_id"] for block in messages[at + 1]["content"] if block["type"] == "tool_result"]
        need(sorted(results) == sorted(calls), f"messages.{at + 1}: tool_use ids without tool_result blocks")
        kinds = [block["type"] == "tool_result" for block in messages[at + 1]["content"]]
        need(kinds == sorted(kinds, reverse=True), f"messages.{at + 1}: tool_result blocks come first")


def events(whole):
    """A message as the events of a stream."""
    begin = whole.model_copy(update={"content": [], "stop_reason": None})
    yield types.RawMessageStartEvent.construct(type="message_start", message=begin)
    for index, block in enumerate(whole.content):
        empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}, "tool_use": {"input": {}}}[
            block.type
        ]
        yield types.RawContentBlockStartEvent.construct(
            type="content_block_start", index=index, content_block=block.model_copy(update=empty)
        )
        for delta in deltas(block):
            yield types.RawContentBlockDeltaEvent(type="content_block_delta", index=index, delta=delta)
        yield types.RawContentBlockStopEvent(type="content_block_stop", index=index)
    delta = {"stop_reason": whole.stop_reason, "stop_sequence": None}
    usage = types.MessageDeltaUsage.construct(output_tokens=ANSWER_TOKENS)
    yield types.RawMessageDeltaEvent.construct(type="message_delta", delta=delta, usage=usage)
    yield types.RawMessageStopEvent(type="message_stop")


def deltas(block):
    if block.type == "text":
        half = len(block.text) // 2
        yield types.TextDelta(type="text_delta", text=block.text[:half])
        yield types.TextDelta(type="text_delta", text=block.text[half:])
    elif block.type == "thinking":
        yield types.ThinkingDelta(type="thinking_delta", thinking=block.thinking)
        yield types.SignatureDelta(type="signature_delta", signature=block.signature)
    else:
        yield types.InputJSONDelta(type="input_json_delta", partial_json='{"city": "Zür')
        yield types.InputJSONDelta(type="input_json_delta", partial_json='ich", "days": 2}')
