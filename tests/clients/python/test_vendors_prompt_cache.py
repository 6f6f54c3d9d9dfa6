"""Breakpoints of prompt caches: new and old models of Anthropic, Bedrock and Vertex AI in every conversation. The vendors' own packages
check each request as in test_vendors.py, and the rules of the caches that are in no package are checked here."""

import dataclasses
import re

import pytest
from conversations import CONVERSATIONS
from test_vendors import KNOWN, MODELS, config, walk
from upstreams import gateway, upstream
from vendors import VENDORS, Recorder
from vendors.common import Invalid, need

NAMES = re.compile(r"(anthropic|amazon|vertex)/.*(claude-(opus-5-5|opus-4-5|sonnet-4-6|haiku-4-5)|nova|llama)")
CACHED = {name: model for name, model in MODELS.items() if NAMES.match(name)}
# "Prompt caching" (platform.claude.com) and "Prompt caching for faster model inference" (docs.aws.amazon.com).
MOST_BREAKPOINTS = 4


def marks(block):
    """Whether a block of Anthropic's API ends the part of a prompt that is kept."""
    if "cache_control" not in block:
        return False
    need(block["cache_control"] == {"type": "ephemeral"}, f"another breakpoint: {block}")
    need(block.get("text") != "", "a breakpoint on an empty text")
    return True


def breakpoints_of_claude(body):
    lists = [body.get("tools", []), body.get("system", []), *(message["content"] for message in body["messages"])]
    return sum(marks(block) for blocks in lists if isinstance(blocks, list) for block in blocks)


def breakpoints_of_bedrock(body):
    lists = [
        body.get("toolConfig", {}).get("tools", []),
        body.get("system", []),
        *(message["content"] for message in body["messages"]),
    ]
    for blocks in lists:
        for before, block in zip([None, *blocks], blocks):
            need("cachePoint" not in block or before and "cachePoint" not in before, "a breakpoint after nothing")
    return sum("cachePoint" in block for blocks in lists for block in blocks)


def breakpoints(request):
    count = breakpoints_of_bedrock if "/converse" in request.path else breakpoints_of_claude
    found = count(request.json)
    need(found <= MOST_BREAKPOINTS, f"{found} breakpoints")
    return found


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """What the vendors got, and the fault of each case by model and conversation."""
    recorder = Recorder()
    with upstream() as server:
        server.reset(recorder)
        settings = "".join(config(server.url, 'prompt_cache = { mode = "auto", min_tokens = 1 }\n'))
        with gateway(tmp_path_factory.mktemp("cached"), settings) as client:
            found = walk(client, recorder, list(CACHED.values()))
    return recorder, found


def cases():
    for model in CACHED:
        for conversation in CONVERSATIONS:
            if (model, conversation.name) not in KNOWN:
                yield pytest.param(model, conversation.name, id=f"{model}-{conversation.name.replace(' ', '_')}")


@pytest.mark.parametrize(("model", "conversation"), list(cases()))
def test_the_vendor_takes_breakpoints(walked, model, conversation):
    fault = walked[1].get((model, conversation))
    if isinstance(fault, AssertionError):
        raise fault
    assert fault is None, repr(fault)


def test_requests_have_breakpoints_where_the_vendor_allows_them(walked):
    counts = {"claude": set(), "nova": set(), "llama": set()}
    for request in (request for case in walked[0].requests.values() for request in case):
        model = request.json.get("model") or request.path
        kind = next(kind for kind in counts if kind in model)
        counts[kind].add(breakpoints(request))
    # Nova takes none behind its tools, and Llama has no cache.
    assert counts == {"claude": {1, 2, 3, 4}, "nova": {1, 2, 3}, "llama": {0}}


@pytest.mark.parametrize("api", ["anthropic", "bedrock"])
def test_the_vendors_refuse_what_is_no_breakpoint(walked, api):
    """The checks mean something."""
    vendor = next(vendor for vendor in VENDORS if vendor.api == api)
    of_vendor = [request for case in walked[0].requests.values() for request in case if vendor.takes(request.path)]
    name = {"anthropic": b'"cache_control":{"type":"ephemeral"}', "bedrock": b'"cachePoint":{"type":"default"}'}[api]
    request = next(request for request in of_vendor if name in request.body)
    vendor.read(request)
    wrong = dataclasses.replace(request, body=request.body.replace(name, name.replace(b"type", b"kind"), 1))
    with pytest.raises(Invalid):
        vendor.read(wrong)
