"""Shared parts of the vendors: strict validators made of types, and the content of answers."""

import json
from dataclasses import dataclass, field

import pydantic
from pydantic import TypeAdapter
from pydantic_core import SchemaValidator

TEXT = 'Grüße, 👍 "you"\n'
THOUGHT = "Hm, let me see."
SIGNATURE = "EqQBCgIYAhIM/+1gbcDa9GJwZA2b3h=="
# The arguments of every tool call, and the content of every structured answer.
ARGUMENTS = {"city": "Zürich", "days": 2}
PROMPT_TOKENS, ANSWER_TOKENS = 70, 12


class Invalid(Exception):
    """The vendor's package refuses the request. The message is the package's."""


@dataclass
class Asked:
    """The meaning of a valid request, independent of the vendor."""

    model: str
    stream: bool = False
    tools: list = field(default_factory=list)  # names that may be called
    forced: list = field(default_factory=list)  # names of which one must be called
    question: bool = True  # what was said last is a question, and no result of a tool
    json: bool = False
    thinks: bool = False
    n: int = 1


@dataclass
class Reply:
    """The content of the answer."""

    text: str | None = None
    thought: str | None = None
    calls: list = field(default_factory=list)  # of names


def is_question(text):
    """Tells whether the client's last text is a question."""
    return isinstance(text, str) and text.endswith("?")


def reply_to(asked):
    """Calls two tools for a question where there are some, or what must be called; else says something."""
    thought = THOUGHT if asked.thinks else None
    if asked.forced:
        return Reply(thought=thought, calls=asked.forced[:2] if asked.question else asked.forced[-1:])
    if asked.tools and asked.question:
        return Reply(thought=thought, text="I will look.", calls=asked.tools[:2])
    return Reply(thought=thought, text=json.dumps(ARGUMENTS, ensure_ascii=False) if asked.json else TEXT)


def _lists(schema):
    """`Iterable` is read lazily, which checks nothing: such a member is made a list."""
    if isinstance(schema, dict):
        schema = {key: _lists(value) for key, value in schema.items()}
        return {**schema, "type": "list"} if schema.get("type") == "generator" else schema
    if isinstance(schema, (list, tuple)):
        return type(schema)(_lists(value) for value in schema)
    return schema


class Shape:
    """A type that takes nothing but what it names, and no text for a number."""

    def __init__(self, kind, *, strict=True):
        self.validator = SchemaValidator(_lists(TypeAdapter(kind).core_schema))
        self.strict = strict

    def check(self, value, where=""):
        body = value if isinstance(value, bytes) else json.dumps(value)
        try:
            return self.validator.validate_json(body, strict=self.strict, extra="forbid")
        except pydantic.ValidationError as fault:
            raise Invalid(where + words(fault)) from None


def words(fault):
    """The validator's errors. Of a union, those of the alternative that came nearest: the one with the fewest."""
    errors = fault.errors(include_url=False, include_input=False, include_context=False)
    groups = {}
    for error in errors:
        groups.setdefault(error["loc"][:1], []).append(error)
    nearest = min(groups.values(), key=len) if len(groups) > 1 else errors
    deepest = sorted(nearest, key=lambda error: -len(error["loc"]))
    told = [
        f"{'.'.join(shorten(part) for part in error['loc'])}: {error['msg']}" for error in [*nearest[:2], *deepest[:3]]
    ]
    return "; ".join(dict.fromkeys(told))


def shorten(part):
    return str(part).split("[", 1)[0]


def need(holds, message):
    """A rule that the vendor documents and its types do not hold."""
    if not holds:
        raise Invalid(message)


def load(body):
    """JSON whose objects name no member twice."""

    def once(pairs):
        value = dict(pairs)
        need(len(value) == len(pairs), "a member is there twice: " + ", ".join(name for name, _ in pairs))
        return value

    return json.loads(body, object_pairs_hook=once)


def sse(*events, kind=None):
    """Server-sent events. `kind` names the event of a body."""
    for body in events:
        head = b"event: %s\n" % kind(body).encode() if kind else b""
        yield head + b"data: " + (body if isinstance(body, bytes) else body.encode()) + b"\n\n"
