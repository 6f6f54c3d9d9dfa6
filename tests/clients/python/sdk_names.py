"""Every name of the vendors' newest SDKs that a request may hold: members, types of tools, types of parts, headers.

`python sdk_names.py --write` writes tests/clients/sdk-names.json from the installed SDKs. The policy table of the gateway
must have a row for each name (crates/gw/tests/serving/surfaces/sdk_names.rs), so a new member of a newer SDK fails that test
until somebody decides what happens to it.
"""

import importlib.metadata
import inspect
import json
import pathlib
import sys
import typing

from typing_extensions import Annotated, Literal, NotRequired, Required, get_type_hints, is_typeddict

FILE = pathlib.Path(__file__).parent.parent / "sdk-names.json"


def bare(hint):
    while typing.get_origin(hint) in (Required, NotRequired, Annotated):
        hint = typing.get_args(hint)[0]
    return hint


def options(hint):
    """The types that a hint stands for, through unions and lists."""
    hint = bare(hint)
    inner = typing.get_args(hint)
    if typing.get_origin(hint) is Literal or not inner:
        return [hint]
    return [option for part in inner for option in options(part)]


def members(typed_dict):
    return get_type_hints(typed_dict, include_extras=True)


def words(hint):
    """The strings of a literal type."""
    found = []
    for option in options(hint):
        if typing.get_origin(option) is Literal:
            found.extend(word for word in typing.get_args(option) if isinstance(word, str))
    return found


def kinds(hint):
    """The `type` of each object that a hint allows."""
    found = set()
    for option in options(hint):
        if is_typeddict(option):
            found.update(words(members(option).get("type", str)))
    return found


def inside(hint, names):
    """The types of the objects in these members of the objects that a hint allows."""
    found = set()
    for option in options(hint):
        if is_typeddict(option):
            hints = members(option)
            for name in names:
                if name in hints:
                    found |= kinds(hints[name])
    return found


def responses():
    from openai.types.responses import response_create_params as create

    body = members(create.ResponseCreateParamsStreaming)
    plain = members(create.ResponseCreateParamsNonStreaming)
    items = kinds(body["input"])
    parts = inside(body["input"], ["content", "summary"])
    for option in options(body["input"]):
        # The output of a call may be a list of parts.
        if is_typeddict(option) and words(members(option).get("type", str)) and "output" in members(option):
            kind = words(members(option)["type"])[0]
            if kind in ("function_call_output", "custom_tool_call_output", "computer_call_output"):
                parts |= kinds(members(option)["output"])
    tools = kinds(body["tools"]) | inside(body["tools"], ["tools"])
    tools |= inside(body["input"], ["tools"]) if "mcp" in inside(body["input"], ["tools"]) else set()
    nested = references(body["input"]) | references(body["tools"]) | references(body["prompt_cache_options"])
    return {"members": {*body, *plain}, "tools": tools, "parts": items | parts, "nested": nested}


def messages(module):
    body = {**members(module.MessageCreateParamsStreaming), **members(module.MessageCreateParamsNonStreaming)}
    contents = []
    for option in options(body["messages"]):
        if is_typeddict(option):
            contents.append(members(option)["content"])
    parts = set()
    for hint in contents:
        parts |= kinds(hint) | inside(hint, ["tool"])
        for option in options(hint):
            # The content of a tool's result, and of a document.
            if is_typeddict(option) and "tool_result" in words(members(option).get("type", str)):
                parts |= kinds(members(option)["content"])
    system = kinds(body["system"])
    nested = references(body["messages"]) | references(body["tools"]) | references(body["thread"] if "thread" in body else str)
    return {"members": set(body), "tools": kinds(body["tools"]), "parts": parts | system, "nested": nested}


def chat():
    from openai.types.chat import completion_create_params as create

    body = {**members(create.CompletionCreateParamsStreaming), **members(create.CompletionCreateParamsNonStreaming)}
    parts = inside(body["messages"], ["content"])
    return {"members": set(body), "tools": kinds(body["tools"]), "parts": parts}


def flat(module, names):
    return {"members": {member for name in names for member in members(getattr(module, name))}, "tools": set(), "parts": set()}


def headers(package, prefix):
    """The headers with this prefix that the package's sources name."""
    found = set()
    root = pathlib.Path(inspect.getfile(package)).parent
    for file in root.rglob("*.py"):
        for piece in file.read_text().split('"')[1::2]:
            name = piece.lower()
            if name.startswith(prefix) and name.replace("-", "").isalpha():
                found.add(name)
    return found


def references(hint):
    """The members at any depth whose names tell that they hold an id, a URL or a container."""
    found, seen, waiting = set(), set(), [hint]
    while waiting:
        for option in options(waiting.pop()):
            if is_typeddict(option) and option not in seen:
                seen.add(option)
                for name, inner in members(option).items():
                    waiting.append(inner)
                    if name.rsplit("_", 1)[-1] in ("id", "ids", "url", "container"):
                        found.add(name)
    return found


def union(one, other):
    return {place: one[place] | other[place] for place in one}


def names():
    import anthropic
    import openai
    from anthropic.types import message_create_params
    from anthropic.types.beta import message_create_params as beta_create_params
    from openai.types import completion_create_params, embedding_create_params

    completion = ["CompletionCreateParamsStreaming", "CompletionCreateParamsNonStreaming"]
    surfaces = {
        "chat": chat(),
        "completions": flat(completion_create_params, completion),
        "embeddings": flat(embedding_create_params, ["EmbeddingCreateParams"]),
        "responses": responses(),
        "messages": union(messages(message_create_params), messages(beta_create_params)),
    }
    found = {
        surface: {place: sorted(listed) for place, listed in places.items()} for surface, places in surfaces.items()
    }
    found["messages"]["headers"] = sorted(headers(anthropic, "anthropic-"))
    found["responses"]["headers"] = sorted(headers(openai, "openai-") - {"openai-poll-after-ms"})
    sdks = {name: importlib.metadata.version(name) for name in ("anthropic", "openai")}
    return {"sdks": sdks, "surfaces": found}


def text():
    return json.dumps(names(), indent=1) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        FILE.write_text(text())
    else:
        sys.stdout.write(text())
