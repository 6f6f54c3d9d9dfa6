"""Requests to a chat model: a name, the capabilities that the model needs, and the members of the request."""

import json
from dataclasses import dataclass, field

from upstreams import IMAGE, TIME, UNTIDY, WEATHER
from vendors.common import ARGUMENTS, TEXT

SYSTEM = {"role": "system", "content": "Be kind."}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "trip", "strict": True, "schema": SCHEMA}}
TOOLS = [WEATHER, TIME]
NOW = {"type": "function", "function": {"name": "now"}}
# Parts of schemas: references, alternatives, bounds, formats, an object without `additionalProperties`.
DEEP_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Trip",
    "type": "object",
    "properties": {
        "city": {"$ref": "#/$defs/name"},
        "days": {"type": "integer", "minimum": 1, "maximum": 30},
        "via": {"type": "array", "items": {"$ref": "#/$defs/place"}, "minItems": 2, "maxItems": 5},
        "begin": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        "by": {"type": ["string", "null"], "enum": ["train", "bus", None]},
    },
    "required": ["city", "days"],
    "$defs": {
        "name": {"type": "string", "minLength": 1},
        "place": {"type": "object", "properties": {"name": {"$ref": "#/$defs/name"}}, "required": ["name"]},
    },
}
DEEP = {"type": "json_schema", "json_schema": {"name": "deep", "description": "A trip", "schema": DEEP_SCHEMA}}
DEEP_TOOL = {"type": "function", "function": {"name": "plan", "parameters": DEEP_SCHEMA}}
FORCED = {"type": "function", "function": {"name": "get_time"}}
ALLOWED = {
    "type": "allowed_tools",
    "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "get_time"}}]},
}
# A page without anything on it.
PDF = "JVBERi0xLjQKMSAwIG9iajw8L1R5cGUvQ2F0YWxvZz4+ZW5kb2JqCnRyYWlsZXI8PC9Sb290IDEgMCBSPj4KJSVFT0YK"
DOCUMENT = {"type": "file", "file": {"filename": "page.pdf", "file_data": "data:application/pdf;base64," + PDF}}
# No sound, 16 samples of it.
WAV = "UklGRjQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YRAAAACAgICAgICAgICAgICAgICA"
SOUND = {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}}
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


@dataclass
class Conversation:
    """`messages` come after the first, which names the case. `says` is the answer's text, `calls` are its calls."""

    name: str
    messages: list = field(default_factory=list)
    needs: tuple = ()  # features, and kinds of input
    says: str | None = None
    calls: tuple = ()
    system: bool = True
    image: dict | None = None
    more: dict = field(default_factory=dict)
    echo: bool = False  # the answer is sent back with results of its calls, and what is said then is the answer
    # A clear 400 before anything is sent is as good an answer as a request that the vendor takes.
    refusable: bool = False

    def first(self, case):
        text = {"type": "text", "text": f"{case}: where to?"}
        content = text["text"] if self.image is None else [text, self.image]
        return [*([SYSTEM] if self.system else []), {"role": "user", "content": content}, *self.messages]


def _say(name, *messages, **more):
    known = {key: more.pop(key) for key in Conversation.__dataclass_fields__ if key in more}
    if not known.get("calls"):
        known.setdefault("says", TEXT)
    return Conversation(name, list(messages), more=more, **known)


def _result(number, text):
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": text}


def _calls(*names):
    function = {"arguments": json.dumps(ARGUMENTS)}
    calls = [
        {"id": f"call_{at}", "type": "function", "function": {"name": name, **function}}
        for at, name in enumerate(names)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


TRIP = json.dumps(ARGUMENTS)
BOTH, CALLS = ("get_weather", "get_time"), ("function_calling",)
PREFILL = {"role": "assistant", "content": "The answer is"}
SAMPLED = {
    "temperature": 0.7,
    "top_p": 0.9,
    "frequency_penalty": 0.5,
    "presence_penalty": 0.25,
    "max_tokens": 500,
    "user": "u-1",
}

CONVERSATIONS = [
    _say("text", system=False),
    _say("system"),
    _say(
        "turns",
        {"role": "assistant", "content": "To the sea?"},
        {"role": "user", "content": [{"type": "text", "text": "No, "}, {"type": "text", "text": "elsewhere."}]},
        {"role": "assistant", "content": "Then to the hills."},
        {"role": "user", "content": "Why?"},
    ),
    _say(
        "late system",
        {"role": "assistant", "content": "To the sea?"},
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "No."},
    ),
    _say("sampling", **SAMPLED),
    _say("temperature", temperature=0.3, max_completion_tokens=500),
    _say("hot", temperature=1.7),
    _say("top_p", top_p=0.5),
    _say("stop", stop=["END", "\n\n"]),
    _say("seed", seed=-7),
    _say("logprobs", logprobs=True, top_logprobs=3),
    _say("logit_bias", logit_bias={"42": -100}),
    _say("choices", n=2),
    _say("json", needs=("json_mode",), says=TRIP, response_format={"type": "json_object"}),
    _say("schema", needs=("json_schema",), says=TRIP, response_format=FORMAT),
    _say("deep schema", needs=("json_schema",), says=TRIP, response_format=DEEP),
    _say("image", needs=("image",), image=IMAGE),
    _say(
        "image address",
        needs=("image",),
        image={"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        refusable=True,
    ),
    _say("document", needs=("pdf",), image=DOCUMENT),
    _say("sound", needs=("audio",), image=SOUND),
    _say("prefill", PREFILL, refusable=True),
    _say("tools", needs=CALLS, calls=BOTH, tools=TOOLS),
    _say("deep tool", needs=CALLS, calls=("plan",), tools=[DEEP_TOOL]),
    _say("plain tool", needs=CALLS, calls=("now",), tools=[NOW]),
    _say("tools not called", needs=CALLS, tools=TOOLS, tool_choice="none"),
    _say("a tool required", needs=CALLS, calls=BOTH, tools=TOOLS, tool_choice="required", refusable=True),
    _say("forced tool", needs=CALLS, calls=BOTH[1:], tools=TOOLS, tool_choice=FORCED, refusable=True),
    _say("allowed tools", needs=CALLS, calls=BOTH[1:], tools=TOOLS, tool_choice=ALLOWED, refusable=True),
    _say("one call", needs=CALLS, calls=BOTH[:1], tools=TOOLS, parallel_tool_calls=False),
    _say("results", _calls(*BOTH), _result(0, '{"sky": "clear"}'), _result(1, "12:00"), needs=CALLS, tools=TOOLS),
    _say("results in another order", _calls(*BOTH), _result(1, "12:00"), _result(0, ""), needs=CALLS, tools=TOOLS),
    _say(
        "results and more",
        _calls(*BOTH),
        _result(0, "[1, 2"),
        _result(1, "12:00"),
        {"role": "user", "content": "And then?"},
        needs=CALLS,
        calls=BOTH,
        tools=TOOLS,
    ),
    _say("untidy", *UNTIDY, needs=CALLS, tools=TOOLS),
    _say(
        "old results",
        _calls(*BOTH),
        _result(0, "clear"),
        _result(1, "12:00"),
        {"role": "assistant", "content": "Clear."},
        {"role": "user", "content": "Go on."},
    ),
    _say(
        "schema and tools",
        needs=(*CALLS, "json_schema"),
        calls=BOTH,
        tools=TOOLS,
        response_format=FORMAT,
        refusable=True,
    ),
    _say(
        "schema and results",
        _calls(*BOTH),
        _result(0, "clear"),
        _result(1, "12:00"),
        needs=(*CALLS, "json_schema"),
        says=TRIP,
        tools=TOOLS,
        response_format=FORMAT,
        refusable=True,
    ),
    *(
        _say(f"effort {effort}", reasoning_effort=effort, max_tokens=4000, refusable=effort in ("xhigh", "max"))
        for effort in EFFORTS
    ),
    _say("effort and sampling", reasoning_effort="high", temperature=0.7, top_p=0.9, max_tokens=4000),
    _say("effort and tools", needs=CALLS, calls=BOTH, tools=TOOLS, reasoning_effort="high", max_tokens=4000),
    _say(
        "effort and forced tool",
        needs=CALLS,
        calls=BOTH[1:],
        tools=TOOLS,
        tool_choice=FORCED,
        reasoning_effort="high",
        max_tokens=4000,
        refusable=True,
    ),
    _say(
        "effort and results",
        _calls(*BOTH),
        _result(0, "clear"),
        _result(1, "12:00"),
        needs=CALLS,
        tools=TOOLS,
        reasoning_effort="high",
        max_tokens=4000,
    ),
    _say("effort and prefill", PREFILL, reasoning_effort="high", max_tokens=4000, refusable=True),
    _say("echo", needs=CALLS, tools=TOOLS, reasoning_effort="medium", max_tokens=4000, echo=True),
    _say(
        "everything",
        PREFILL,
        needs=(*CALLS, "json_schema"),
        calls=BOTH[1:],
        tools=TOOLS,
        tool_choice=FORCED,
        response_format=FORMAT,
        reasoning_effort="high",
        stop=["END"],
        seed=7,
        refusable=True,
        **{**SAMPLED, "max_tokens": 4000},
    ),
]
