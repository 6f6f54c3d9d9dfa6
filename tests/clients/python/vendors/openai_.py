"""OpenAI, Azure and whoever speaks OpenAI's dialect: the `openai` package."""

import re

from openai.types import chat
from openai.types.chat import completion_create_params
from upstreams import Answer, stream

from .common import ANSWER_TOKENS, PROMPT_TOKENS, Asked, Shape, is_question, load, need, reply_to, sse

BODY = Shape(completion_create_params.CompletionCreateParams)
# Members of OpenAI-compatible vendors that OpenAI does not have and the gateway writes: their pages, read 2026-11-22.
MEMBERS = {
    "deepseek": ("prefix",),  # "Chat Prefix Completion", api-docs.deepseek.com
    "moonshotai": ("partial",),  # "Partial Mode", platform.moonshot.ai
    "alibaba": ("partial",),  # "Partial mode", alibabacloud.com/help/en/model-studio
}
# They read back how an answer was reasoned: `reasoning_content` of DeepSeek ("Thinking Mode"), Moonshot, Z.ai and Alibaba
# in their API references; `reasoning_details` of MiniMax ("OpenAI API compatible").
ECHOES = ("reasoning_content", "reasoning_details", "reasoning")
# `max_tokens` of o-series models: `completion_create_params`; of GPT-5 and later: "Using GPT-5", developers.openai.com.
REASONS = re.compile(r"o\d|gpt-(?:[5-9]|\d\d)(?!.*chat)")
# "Using GPT-5.4 / 5.2 / 5.1", parameter compatibility: temperature, top_p and logprobs go with effort `none` alone, which
# is their default up to 5.4; o-series and GPT-5 itself take none of them.
NEVER_SAMPLES = re.compile(r"o\d|gpt-5(?:-|$)")
SAMPLING = ("temperature", "top_p", "logprobs", "top_logprobs")
# `reasoning_effort` of `completion_create_params`, openai 2.30: the efforts up to 5.1, and xhigh after it; of 5.6 the API's
# own words in livekit/agents#7169, and max as measured in enricoros/big-AGI#1159.
EFFORTS = [
    (re.compile(r"o\d"), {"low", "medium", "high"}),
    (re.compile(r"gpt-5(?:-|$)"), {"minimal", "low", "medium", "high"}),
    (re.compile(r"gpt-5\.1"), {"none", "low", "medium", "high"}),
    (re.compile(r"gpt-5\.6"), {"none", "low", "medium", "high", "xhigh", "max"}),
]
# "Function tools with reasoning_effort are not supported for … in /v1/chat/completions": from 5.4 on where it is asked for
# (pipecat-ai/pipecat#4043), with 5.6 even where it is not (BerriAI/litellm#34569, danny-avila/LibreChat#14355).
TOOLS_WITHOUT_EFFORT = re.compile(r"gpt-5\.[456]")
TOOLS_WITH_NONE = re.compile(r"gpt-5\.6")


class OpenAi:
    api = "openai"
    key = "openai-test-key"
    path = re.compile(r"/([a-z]+)/v1/chat/completions")

    def takes(self, path):
        return self.path.fullmatch(path) is not None

    def vendor(self, request):
        return self.path.fullmatch(request.path).group(1)

    def read(self, request):
        need(request.header("authorization") == "Bearer " + self.key, "no key")
        body, vendor = load(request.body), self.vendor(request)
        self.check(body, vendor)
        return self.asked(body)

    def check(self, body, vendor):
        told = {**body, "messages": [without(message, vendor) for message in body["messages"]]}
        BODY.check(told)
        check_turns(body["messages"])
        # `completion_create_params`: "Up to 4 sequences".
        stop = body.get("stop")
        need(not isinstance(stop, list) or len(stop) <= 4, "stop: array too long")
        need("top_logprobs" not in body or body.get("logprobs"), "top_logprobs: logprobs must be true")
        need(not {"max_tokens", "max_completion_tokens"} <= set(body), "max_tokens beside max_completion_tokens")
        if vendor in ("openai", "azure"):
            check_model(body)

    def asked(self, body):
        tools = [tool.get("function", tool.get("custom", {})).get("name") for tool in body.get("tools", [])]
        choice = body.get("tool_choice", "auto")
        allowed = tools
        if isinstance(choice, dict) and choice["type"] == "allowed_tools":
            allowed = [tool["function"]["name"] for tool in choice["allowed_tools"]["tools"]]
            choice = choice["allowed_tools"]["mode"]
        forced = allowed if choice == "required" else [choice["function"]["name"]] if isinstance(choice, dict) else []
        need(set(forced) <= set(tools), f"tool_choice: {forced} is none of {tools}")
        if choice == "none":
            allowed = []
        return Asked(
            model=body["model"],
            stream=bool(body.get("stream")),
            tools=allowed if body.get("parallel_tool_calls", True) else allowed[:1],
            forced=forced,
            question=is_question(text_of(body["messages"][-1])),
            json=body.get("response_format", {}).get("type", "text") != "text",
            n=body.get("n") or 1,
        )

    def refuse(self, message):
        return Answer(
            {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}, 400
        )

    def write(self, asked):
        said = reply_to(asked)
        calls = [
            {
                "id": f"call_{at}",
                "type": "function",
                "function": {"name": name, "arguments": '{"city": "Zürich", "days": 2}'},
            }
            for at, name in enumerate(said.calls)
        ]
        message = {"content": said.text, "refusal": None, **({"tool_calls": calls} if calls else {})}
        deltas = [{"content": part} for part in halves(said.text)] if said.text else []
        deltas += [delta for at, call in enumerate(calls) for delta in call_deltas(at, call)]
        return self.say(asked, message, deltas)

    def say(self, asked, message, deltas, extra="forbid"):
        """An answer with this message, which a stream brings as these pieces."""
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        head = {"id": "chatcmpl-1", "created": 1767225600, "model": asked.model}
        usage = {
            "prompt_tokens": PROMPT_TOKENS,
            "completion_tokens": ANSWER_TOKENS,
            "total_tokens": PROMPT_TOKENS + ANSWER_TOKENS,
        }
        if not asked.stream:
            message = {"role": "assistant", **message}
            choices = [
                {"index": at, "finish_reason": finish, "message": message, "logprobs": None} for at in range(asked.n)
            ]
            whole = chat.ChatCompletion.model_validate(
                {**head, "object": "chat.completion", "choices": choices, "usage": usage}, extra=extra
            )
            return Answer(whole.model_dump_json(exclude_unset=True).encode())

        def chunk(choices, usage=None):
            body = {**head, "object": "chat.completion.chunk", "choices": choices, "usage": usage}
            return chat.ChatCompletionChunk.model_validate(body, extra=extra).model_dump_json(exclude_unset=True)

        bodies = [
            chunk([{"index": at, "delta": delta, "finish_reason": None}])
            for delta in [{"role": "assistant", "content": ""}, *deltas]
            for at in range(asked.n)
        ]
        bodies += [chunk([{"index": at, "delta": {}, "finish_reason": finish}]) for at in range(asked.n)]
        return stream(sse(*bodies, chunk([], usage), b"[DONE]"), "text/event-stream")


class Azure(OpenAi):
    api = "azure"
    key = "azure-test-key"
    path = re.compile(r"/openai/deployments/([^/]+)/chat/completions\?api-version=2024-10-21")

    def read(self, request):
        need(request.header("api-key") == self.key, "no key")
        body = load(request.body)
        # The address names it.
        body.setdefault("model", self.path.fullmatch(request.path).group(1))
        self.check(body, "azure")
        return self.asked(body)


def call_deltas(at, call):
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    yield {"tool_calls": [{**call, "index": at, "function": {"name": name, "arguments": ""}}]}
    for part in halves(arguments):
        yield {"tool_calls": [{"index": at, "function": {"arguments": part}}]}


def text_of(message):
    """The last text of a message of the user's, in the dialects that are like this one."""
    content = message["content"] if message["role"] == "user" else ""
    if isinstance(content, str):
        return content
    return [part["text"] for part in content if part["type"] == "text"][-1]


def halves(text):
    return text[: len(text) // 2], text[len(text) // 2 :]


def without(message, vendor):
    """A message without what this vendor knows besides."""
    if message["role"] != "assistant":
        return message
    besides = MEMBERS.get(vendor, ()) + (ECHOES if vendor not in ("openai", "azure") else ())
    return {name: value for name, value in message.items() if name not in besides}


def check_turns(messages):
    """The page "Function calling": every call has its result directly after it."""
    for at, message in enumerate(messages):
        calls = [call["id"] for call in message.get("tool_calls") or []]
        results = [later["tool_call_id"] for later in messages[at + 1 : at + 1 + len(calls)] if later["role"] == "tool"]
        need(
            sorted(calls) == sorted(results), "An assistant message with 'tool_calls' must be followed by tool messages"
        )


def check_model(body):
    model = body["model"]
    if not REASONS.match(model):
        need("reasoning_effort" not in body, "Unrecognized request argument supplied: reasoning_effort")
        return
    need("max_tokens" not in body, "Unsupported parameter: 'max_tokens' is not supported with this model.")
    need(
        "stop" not in body or not re.match(r"o3|o4-mini", model),
        "Unsupported parameter: 'stop' is not supported with this model.",
    )
    sampled = [name for name in SAMPLING if name in body and body[name] not in (1, False)]
    need(
        not sampled or not NEVER_SAMPLES.match(model),
        f"Unsupported parameter: {sampled} is not supported with this model.",
    )
    asked = body.get("reasoning_effort")
    for models, efforts in EFFORTS:
        known = asked is None or not models.match(model) or asked in efforts
        need(
            known,
            f"Unsupported value: 'reasoning_effort' does not support '{asked}' with this model. Supported are: {sorted(efforts)}",
        )
    if body.get("tools"):
        effort_is_off = asked == "none" or (asked is None and not TOOLS_WITH_NONE.match(model))
        need(
            effort_is_off or not TOOLS_WITHOUT_EFFORT.match(model),
            f"Function tools with reasoning_effort are not supported for {model}",
        )
    effort = asked or "none"
    need(not sampled or effort == "none", f"Unsupported parameter: {sampled} needs reasoning_effort none")
