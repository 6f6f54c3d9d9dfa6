"""Ollama: the `ollama` package."""

import base64

import ollama
import pydantic
from upstreams import Answer, stream

from .common import ANSWER_TOKENS, ARGUMENTS, PROMPT_TOKENS, Asked, Invalid, is_question, load, need, reply_to, words
from .openai_ import halves, text_of


class Ollama:
    api = "ollama"
    key = None

    def takes(self, path):
        return path == "/api/chat"

    def read(self, request):
        body = load(request.body)
        try:
            check(dict(body))
        except pydantic.ValidationError as fault:
            raise Invalid(words(fault)) from None
        names = [tool["function"]["name"] for tool in body.get("tools", [])]
        return Asked(
            model=body["model"],
            stream=body["stream"],
            tools=names,
            question=is_question(text_of(body["messages"][-1])),
            json=bool(body.get("format")),
            thinks=bool(body.get("think")),
        )

    def refuse(self, message):
        return Answer({"error": message}, 400)

    def write(self, asked):
        said = reply_to(asked)
        calls = [{"function": {"name": name, "arguments": ARGUMENTS}} for name in said.calls]
        whole = {"content": said.text, "thinking": said.thought, "tool_calls": calls or None}
        pieces = [{"thinking": said.thought}] if said.thought else []
        pieces += [{"content": part} for part in halves(said.text)] if said.text else []
        pieces += [{"tool_calls": [call]} for call in calls]
        return self.say(asked, whole, pieces)

    def say(self, asked, whole, pieces):
        """An answer with this message, which a stream brings as these pieces."""

        def response(done=False, **message):
            end = (
                {"done_reason": "stop", "prompt_eval_count": PROMPT_TOKENS, "eval_count": ANSWER_TOKENS} if done else {}
            )
            message = {"role": "assistant", "content": message.pop("content", "") or "", **message}
            body = {
                "model": asked.model,
                "created_at": "2026-01-01T00:00:00.000000Z",
                "done": done,
                **end,
                "message": message,
            }
            return ollama.ChatResponse.model_validate(body, extra="forbid").model_dump_json(exclude_none=True).encode()

        if not asked.stream:
            return Answer(response(True, **whole))
        lines = [response(**piece) for piece in pieces]
        return stream([line + b"\n" for line in [*lines, response(True)]], "application/x-ndjson")


def check(body):
    """Checks that the package knows every member and its type."""
    for tool in body.pop("tools", []):
        # A schema may say more than the package's type of it: that it is an object with a name is enough.
        ollama.Tool.model_validate(tool)
        need(set(tool) == {"type", "function"}, f"tools: {sorted(tool)}")
        need(set(tool["function"]) <= {"name", "description", "parameters"}, f"tools: {sorted(tool['function'])}")
    for message in body.pop("messages"):
        message = dict(message)
        for image in message.pop("images", []):
            # On the wire a picture is what the package's type of it is written as.
            need(ollama.Image(value=base64.b64decode(image, validate=True)).model_dump() == image, "images: no base64")
        # The server's own (`api/types.go`, `ToolCall.ID` and `Message.ToolCallID`); the package has no names for them yet.
        need(isinstance(message.pop("tool_call_id", ""), str), "tool_call_id: no text")
        if "tool_calls" in message:
            message["tool_calls"] = [{key: call[key] for key in call if key != "id"} for call in message["tool_calls"]]
        ollama.Message.model_validate(message, extra="forbid")
        need(message["role"] in ("system", "user", "assistant", "tool"), f"role: {message['role']}")
    ollama.Options.model_validate(body.pop("options", {}), extra="forbid")
    # The server's own (`api/types.go`): a prompt that is too long is an error, not cut in silence.
    need(not body.pop("truncate", False) and not body.pop("shift", False), "the prompt may be cut")
    # `api/types.go`, `ThinkValue`: true, false, or one of these words.
    think = body.get("think")
    need(think in (None, True, False, "low", "medium", "high", "max"), f"think: {think}")
    # `server/routes.go`: a model without the capability, by its page at ollama.com/library.
    need(not think or not body["model"].startswith("llama3"), f'"{body["model"]}" does not support thinking')
    ollama._types.ChatRequest.model_validate(body, extra="forbid")
    # An absent `stream` means true.
    need(isinstance(body["stream"], bool), "stream: missing")
