"""Mistral: `mistralai` has the members, `mistral-common` what its servers say of a conversation."""

import json

from mistral_common.exceptions import MistralCommonException
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.instruct.validator import ValidationMode, get_validator
from mistral_common.tokens.tokenizers.base import TokenizerVersion
from mistralai.client import models
from upstreams import Answer, stream

from .common import ANSWER_TOKENS, PROMPT_TOKENS, Asked, Invalid, Shape, is_question, load, need, reply_to, sse, words
from .openai_ import halves, text_of

BODY = Shape(models.ChatCompletionRequest)
# The members of a request that the validators check.
TALK = {"model", "messages", "tools", "tool_choice", "parallel_tool_calls", "response_format", "reasoning_effort"}
# The tokenizers of the models' releases on Hugging Face: version 15 knows reasoning efforts, 13 serves the others.
NEWEST = ("mistral-large-4", "mistral-medium-3-5", "mistral-small-2603")


def validator(model):
    version = TokenizerVersion.v15 if model.startswith(NEWEST) else TokenizerVersion.v13
    return get_validator(version, ValidationMode.serving)


def plain_thoughts(message):
    """The API's `thinking` is a list of texts, the package's is a text."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    chunks = [
        {**chunk, "thinking": "".join(part["text"] for part in chunk["thinking"])}
        if chunk["type"] == "thinking"
        else chunk
        for chunk in content
    ]
    return {**message, "content": chunks}


class Mistral:
    api = "mistral"
    key = "mistral-test-key"

    def takes(self, path):
        return path == "/mistral/v1/chat/completions"

    def read(self, request):
        need(request.header("authorization") == "Bearer " + self.key, "no key")
        body = load(request.body)
        BODY.check(body)
        self.check(body)
        tools = [tool["function"]["name"] for tool in body.get("tools", [])]
        choice = body.get("tool_choice", "auto")
        forced = (
            tools if choice in ("any", "required") else [choice["function"]["name"]] if isinstance(choice, dict) else []
        )
        need(set(forced) <= set(tools), f"tool_choice: {forced} is none of {tools}")
        if choice == "none":
            tools = []
        return Asked(
            model=body["model"],
            stream=bool(body.get("stream")),
            tools=tools if body.get("parallel_tool_calls", True) else tools[:1],
            forced=forced,
            question=is_question(text_of(body["messages"][-1])),
            json=body.get("response_format", {}).get("type", "text") != "text",
            thinks=body.get("reasoning_effort", "none") != "none",
            n=body.get("n", 1),
        )

    def check(self, body):
        # Chat Completion, docs.mistral.ai/api: temperature 0 to 1.5, top_p 0 to 1, penalties -2 to 2, random_seed from 0.
        need(0 <= body.get("temperature", 0) <= 1.5, "temperature: Input should be less than or equal to 1.5")
        need(body.get("random_seed", 0) >= 0, "random_seed: Input should be greater than or equal to 0")
        if any(chunk["type"] == "document_url" for message in body["messages"] for chunk in chunks_of(message)):
            return  # Documents become text before the validators see them.
        talk = {name: value for name, value in body.items() if name in TALK}
        talk["messages"] = [plain_thoughts(message) for message in body["messages"]]
        try:
            request = ChatCompletionRequest.model_validate_json(json.dumps(talk))
            validator(body["model"]).validate_request(request)
        except MistralCommonException as fault:
            raise Invalid(str(fault)) from None
        except ValueError as fault:
            raise Invalid(words(fault) if hasattr(fault, "errors") else str(fault)) from None

    def refuse(self, message):
        # The API's own shape of a refusal that is no validation's.
        error = {"object": "error", "message": message, "type": "invalid_request_error", "param": None, "code": "3230"}
        return Answer(error, 400)

    def write(self, asked):
        said = reply_to(asked)
        thought = [{"type": "thinking", "thinking": [{"type": "text", "text": said.thought}]}] if said.thought else []
        content = [*thought, {"type": "text", "text": said.text or ""}] if thought else said.text or ""
        deltas = [thought] if thought else []
        deltas += halves(said.text) if said.text else []
        return self.say(asked, content, deltas, said.calls)

    def say(self, asked, content, deltas, names):
        """An answer of this content, which a stream brings as these pieces, and with calls of these tools."""
        calls = [
            {
                "id": f"callcall{at}",
                "type": "function",
                "index": at,
                "function": {"name": name, "arguments": '{"city": "Zürich", "days": 2}'},
            }
            for at, name in enumerate(names)
        ]
        usage = {
            "prompt_tokens": PROMPT_TOKENS,
            "completion_tokens": ANSWER_TOKENS,
            "total_tokens": PROMPT_TOKENS + ANSWER_TOKENS,
        }
        finish = "tool_calls" if calls else "stop"
        head = {"id": "cmpl-1", "created": 1767225600, "model": asked.model}
        if not asked.stream:
            message = {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}
            choices = [{"index": at, "message": message, "finish_reason": finish} for at in range(asked.n)]
            body = {**head, "object": "chat.completion", "choices": choices, "usage": usage}
            return Answer(models.ChatCompletionResponse.model_validate(body, extra="forbid").model_dump_json().encode())

        def chunk(delta, finish=None, usage=None):
            choices = [{"index": at, "delta": delta, "finish_reason": finish} for at in range(asked.n)]
            body = {
                **head,
                "object": "chat.completion.chunk",
                "choices": choices,
                **({"usage": usage} if usage else {}),
            }
            return models.CompletionChunk.model_validate(body, extra="forbid").model_dump_json()

        bodies = [chunk({"role": "assistant", "content": ""})]
        bodies += [chunk({"content": piece}) for piece in deltas]
        bodies.append(chunk({"content": "", **({"tool_calls": calls} if calls else {})}, finish, usage))
        return stream(sse(*bodies, b"[DONE]"), "text/event-stream")


def chunks_of(message):
    content = message.get("content")
    return content if isinstance(content, list) else []
