"""Cohere: the `cohere` package, second version of its API."""

import typing

import cohere
import pydantic
from cohere.v2.raw_client import RawV2Client
from upstreams import Answer, stream

from .common import ANSWER_TOKENS, PROMPT_TOKENS, Asked, Invalid, is_question, load, need, reply_to, sse, words
from .openai_ import halves, text_of


def body_of(method, **more):
    """The body that a method of their client sends, as a type that takes nothing else."""
    hints = typing.get_type_hints(method, include_extras=True)
    for own in ("return", "request_options"):
        hints.pop(own)
    fields = {
        name: (hint, None if type(None) in typing.get_args(hint) else ...) for name, hint in {**hints, **more}.items()
    }
    return pydantic.create_model(method.__name__, __config__=pydantic.ConfigDict(extra="forbid"), **fields)


CHAT = body_of(RawV2Client.chat, stream=bool | None)
EVENT = pydantic.TypeAdapter(cohere.V2ChatStreamResponse)
CALL = '{"city": "Zürich", "days": 2}'


class Cohere:
    api = "cohere"
    key = "co-test-key"

    def takes(self, path):
        return path == "/v2/chat"

    def read(self, request):
        need(request.header("authorization") == "Bearer " + self.key, "no key")
        body = load(request.body)
        try:
            CHAT.model_validate(body, extra="forbid")
        except pydantic.ValidationError as fault:
            raise Invalid(words(fault)) from None
        self.check(body)
        names = [tool["function"]["name"] for tool in body.get("tools", [])]
        choice = body.get("tool_choice")
        return Asked(
            model=body["model"],
            stream=bool(body.get("stream")),
            tools=[] if choice == "NONE" else names,
            forced=names if choice == "REQUIRED" else [],
            question=is_question(text_of(body["messages"][-1])),
            json="response_format" in body or "JSON" in str(body["messages"][0]),
            thinks=body.get("thinking", {}).get("type") == "enabled",
        )

    def check(self, body):
        """The page "Chat", docs.cohere.com/reference/chat, read 2026-11-22."""
        need(0 <= body.get("frequency_penalty", 0) <= 1, "frequency_penalty: from 0.0 to 1.0")
        need(0 <= body.get("presence_penalty", 0) <= 1, "presence_penalty: from 0.0 to 1.0")
        need(0 <= body.get("temperature", 0.3) <= 1, "temperature: from 0.0 to 1.0")
        need(0.01 <= body.get("p", 0.75) <= 0.99, "p: from 0.01 to 0.99")
        need(len(body.get("stop_sequences", [])) <= 5, "stop_sequences: up to 5")
        # "tool_choice": Command R7B and newer; it needs tools.
        need("tool_choice" not in body or body.get("tools"), "tool_choice: tools are missing")
        need(
            "tool_choice" not in body or not body["model"].startswith("command-r-"), "tool_choice: not with this model"
        )
        # "response_format": "not supported when used in combination with the documents or tools parameters".
        need("response_format" not in body or not body.get("tools"), "response_format: not in combination with tools")
        # "Reasoning": Command A Reasoning and newer alone.
        need("thinking" not in body or "reasoning" in body["model"], "thinking: not with this model")
        messages = body["messages"]
        for at, message in enumerate(messages):
            calls = [call["id"] for call in message.get("tool_calls") or []]
            results = [
                later["tool_call_id"] for later in messages[at + 1 : at + 1 + len(calls)] if later["role"] == "tool"
            ]
            need(sorted(calls) == sorted(results), f"messages.{at}: tool calls without results")

    def refuse(self, message):
        return Answer({"id": "e-1", "message": message}, 400)

    def write(self, asked):
        said = reply_to(asked)
        content = [{"type": "thinking", "thinking": said.thought}] if said.thought else []
        content += [{"type": "text", "text": said.text}] if said.text and not said.calls else []
        calls = [
            {"id": f"{name}_{at}", "type": "function", "function": {"name": name, "arguments": CALL}}
            for at, name in enumerate(said.calls)
        ]
        message = {"role": "assistant", **({"content": content} if content else {})}
        if calls:
            message |= {"tool_plan": said.text or "Well.", "tool_calls": calls}
        return self.say(asked, message)

    def say(self, asked, message):
        """An answer with this message."""
        content, calls = message.get("content", []), message.get("tool_calls", [])
        usage = {
            "billed_units": {"input_tokens": 3, "output_tokens": 4},
            "tokens": {"input_tokens": PROMPT_TOKENS, "output_tokens": ANSWER_TOKENS},
        }
        finish = "TOOL_CALL" if calls else "COMPLETE"
        if not asked.stream:
            body = {"id": "co-1", "finish_reason": finish, "message": message, "usage": usage}
            return Answer(cohere.V2ChatResponse.model_validate(body, extra="forbid").json().encode())
        bodies = [event("message-start", id="co-1", delta={"message": {"role": "assistant"}})]
        plan = [
            event("tool-plan-delta", delta={"message": {"tool_plan": part}})
            for part in (halves(message["tool_plan"]) if calls else ())
        ]
        # The plan comes after the first thought and before any text.
        bodies += content_events(0, content[0]) if content else ()
        bodies += plan
        for index, part in enumerate(content[1:], 1):
            bodies += content_events(index, part)
        for index, call in enumerate(calls):
            begun = {**call, "function": {"name": call["function"]["name"], "arguments": ""}}
            bodies.append(event("tool-call-start", index=index, delta={"message": {"tool_calls": begun}}))
            for part in halves(CALL):
                bodies.append(
                    event(
                        "tool-call-delta",
                        index=index,
                        delta={"message": {"tool_calls": {"function": {"arguments": part}}}},
                    )
                )
            bodies.append(event("tool-call-end", index=index))
        bodies.append(event("message-end", id="co-1", delta={"finish_reason": finish, "usage": usage}))
        return stream(sse(*bodies, kind=lambda body: load(body)["type"]), "text/event-stream")


def event(kind, **more):
    return EVENT.validate_python({"type": kind, **more}, extra="forbid").json()


def content_events(index, part):
    kind = part["type"]
    yield event("content-start", index=index, delta={"message": {"content": {"type": kind, kind: ""}}})
    for half in halves(part[kind]):
        yield event("content-delta", index=index, delta={"message": {"content": {kind: half}}})
    yield event("content-end", index=index)
