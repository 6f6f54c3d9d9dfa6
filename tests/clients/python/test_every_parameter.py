"""Every parameter of the vendors' newest SDKs, taken from the signatures of their methods: the demo takes each alone, and all
of them at once. A parameter of a newer SDK that has no value here fails."""

import dataclasses
import inspect

import anthropic
import openai
import pytest
from anthropic import Anthropic
from openai import OpenAI
from processes import running_gateway
from upstreams import SERVER

KEY = "sk-parameters-test-key"
CONFIG = f"""
[[providers]]
name = "demo"
api = "demo"

[[keys]]
name = "parameters"
key = "{KEY}"
"""
# Options of the client, which is no part of the body.
OF_THE_CLIENT = {"extra_headers", "extra_query", "extra_body", "timeout"}
QUESTION = [{"role": "user", "content": "Hello there"}]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
FUNCTION = {"name": "get_weather", "description": "The weather of a city", "parameters": SCHEMA}
TOOL = {"type": "function", "function": FUNCTION}
PLACE = {"country": "AT", "city": "Vienna", "timezone": "Europe/Vienna"}
SAMPLING = {"temperature": 0.5, "top_p": 0.9}
CACHING = {
    "prompt_cache_key": "k",
    "prompt_cache_options": {"mode": "implicit", "ttl": "30m"},
    "prompt_cache_retention": "24h",
}
PERSON = {"user": "u", "safety_identifier": "s", "metadata": {"team": "red"}}
MODERATION = {"model": "omni-moderation-latest"}

CHAT = {
    "model": "demo/chat",
    "messages": QUESTION,
    "audio": {"format": "wav", "voice": "alloy"},
    "frequency_penalty": 0.5,
    "function_call": {"name": "get_weather"},
    "functions": [FUNCTION],
    "logit_bias": {"50256": -100},
    "logprobs": True,
    "max_completion_tokens": 100,
    "max_tokens": 100,
    "modalities": ["text", "audio"],
    "moderation": MODERATION,
    "n": 2,
    "parallel_tool_calls": True,
    "prediction": {"type": "content", "content": "Demo answer"},
    "presence_penalty": 0.5,
    "reasoning_effort": "low",
    "response_format": {"type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": SCHEMA}},
    "seed": 7,
    "service_tier": "priority",
    "stop": ["END"],
    "store": True,
    "stream": True,
    "stream_options": {"include_usage": True, "include_obfuscation": True},
    "tool_choice": "auto",
    "tools": [TOOL, {"type": "custom", "custom": {"name": "code", "format": {"type": "text"}}}],
    "top_logprobs": 3,
    "verbosity": "low",
    "web_search_options": {
        "search_context_size": "low",
        "user_location": {"type": "approximate", "approximate": PLACE},
    },
    **SAMPLING,
    **CACHING,
    **PERSON,
}
RESPONSE = {
    "model": "demo/chat",
    "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hello there"}]}],
    "access_programs": {"cyber": "standard"},
    "background": True,
    "context_management": [{"type": "compaction", "compact_threshold": 100_000}],
    "conversation": "conv_1",
    "image": {"context_compression": "auto"},
    "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
    "instructions": "Be kind.",
    "max_output_tokens": 100,
    "max_tool_calls": 3,
    "moderation": MODERATION,
    "parallel_tool_calls": True,
    "previous_response_id": None,  # of an answer that the test has asked for
    "prompt": {"id": "pmpt_1"},
    "reasoning": {"effort": "low", "summary": "auto"},
    "service_tier": "priority",
    "store": True,
    "stream": True,
    "stream_options": {"include_obfuscation": True},
    "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "city", "strict": True, "schema": SCHEMA}},
    "tool_choice": "auto",
    "tools": [
        {"type": "function", **FUNCTION, "strict": True},
        {"type": "custom", "name": "code"},
        {"type": "web_search", "user_location": {"type": "approximate", **PLACE}},
    ],
    "top_logprobs": 3,
    "truncation": "auto",
    **SAMPLING,
    **CACHING,
    **PERSON,
}
EMBEDDINGS = {
    "model": "demo/embed",
    "input": ["One", "Grüße 👍"],
    "dimensions": 64,
    "encoding_format": "float",
    "user": "u",
}
COMPLETION = {
    "model": "demo/chat",
    "prompt": ["Once", "Twice"],
    "best_of": 2,
    "echo": True,
    "frequency_penalty": 0.5,
    "logit_bias": {"50256": -100},
    "logprobs": 3,
    "max_tokens": 100,
    "n": 2,
    "presence_penalty": 0.5,
    "seed": 7,
    "stop": ["END"],
    "stream": True,
    "stream_options": {"include_usage": True, "include_obfuscation": True},
    "suffix": "ever after.",
    "user": "u",
    **SAMPLING,
}
MESSAGE = {
    "model": "demo/chat",
    "max_tokens": 2000,
    "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello there"}]}],
    "cache_control": {"type": "ephemeral", "ttl": "1h"},
    "container": "container_1",
    "diagnostics": {"previous_message_id": None},
    "inference_geo": "eu",
    "metadata": {"user_id": "u"},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
    "service_tier": "auto",
    "speed": "fast",
    "stop_sequences": ["END"],
    "stream": True,
    "system": [{"type": "text", "text": "Be kind."}],
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "tool_choice": {"type": "auto"},
    "tools": [{"name": "get_weather", "input_schema": SCHEMA}],
    "user_profile_id": "profile_1",
    "workspace_id": "wrkspc_1",
}
BETA = {
    **MESSAGE,
    "betas": ["context-1m-2025-08-07"],
    "billing_policy": {"type": "billing_policy", "bill_to": "self"},
    "compaction": {"type": "summarize"},
    "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
    "fallback_credit_token": "token",
    "fallbacks": [{"model": "demo/chat"}],
    "mcp_servers": [{"type": "url", "name": "m", "url": "https://mcp.example/sse"}],
    "thread": {"type": "create"},
}
TOKENS = {
    name: RESPONSE[name]
    for name in (
        "conversation input instructions model parallel_tool_calls previous_response_id reasoning text tool_choice "
        "tools truncation"
    ).split()
} | {"personality": "friendly"}
COMPACTED = {
    name: RESPONSE[name]
    for name in "model image input instructions previous_response_id service_tier".split()
} | CACHING
COUNT = {
    name: MESSAGE[name]
    for name in (
        "messages model cache_control output_config speed system thinking tool_choice tools user_profile_id workspace_id"
    ).split()
}


@dataclasses.dataclass
class Method:
    """A method of an SDK, with a value of each of its parameters."""

    name: str
    values: dict
    needed: tuple  # in every call
    # A parameter means nothing without these.
    companions: dict = dataclasses.field(default_factory=dict)
    # Parameters that exclude others, or say the same as others.
    apart: tuple = ()
    # Parameters that only an upstream can serve that keeps conversations, prompts or threads: a clear 400.
    refused: tuple = ()
    # Parameters of the method that are no member of the body.
    local: tuple = ()

    def of(self, clients):
        method = clients["anthropic" if "messages" in self.name else "openai"]
        for part in self.name.split("."):
            method = getattr(method, part)
        return method


METHODS = [
    Method(
        "chat.completions.create",
        CHAT,
        ("model", "messages"),
        {
            "audio": ("modalities",),
            "modalities": ("audio",),
            "top_logprobs": ("logprobs",),
            "stream_options": ("stream",),
            "function_call": ("functions",),
            "tool_choice": ("tools",),
            "parallel_tool_calls": ("tools",),
        },
        ("functions", "function_call", "max_tokens"),
    ),
    Method(
        "responses.create",
        RESPONSE,
        ("model", "input"),
        {
            "top_logprobs": ("include",),
            "stream_options": ("stream",),
            "tool_choice": ("tools",),
            "parallel_tool_calls": ("tools",),
            "max_tool_calls": ("tools",),
        },
        refused=("conversation", "prompt"),
    ),
    Method("embeddings.create", EMBEDDINGS, ("model", "input")),
    Method(
        "completions.create",
        COMPLETION,
        ("model", "prompt"),
        {"stream_options": ("stream",), "best_of": ("n",)},
        # OpenAI: a stream has no `best_of`.
        ("best_of",),
    ),
    Method("responses.input_tokens.count", TOKENS, ("model", "input"), refused=("conversation",)),
    Method("responses.compact", COMPACTED, ("model", "input")),
    Method(
        "messages.create",
        MESSAGE,
        ("model", "max_tokens", "messages"),
        {"tool_choice": ("tools",)},
    ),
    Method(
        "beta.messages.create",
        BETA,
        ("model", "max_tokens", "messages"),
        {"tool_choice": ("tools",)},
        refused=("thread",),
    ),
    Method(
        "messages.count_tokens",
        COUNT,
        ("model", "messages"),
        {"tool_choice": ("tools",)},
        # A type of the caller's, of which the SDK makes `output_config`.
        local=("output_format",),
    ),
]


@pytest.fixture(scope="module")
def clients(tmp_path_factory):
    with running_gateway(tmp_path_factory.mktemp("gateway"), SERVER + CONFIG) as process:
        options = {"max_retries": 0, "timeout": 60}
        with (
            OpenAI(base_url=process.url + "/v1", api_key=KEY, **options) as theirs,
            Anthropic(base_url=process.url, api_key=KEY, auth_token=None, **options) as claude,
        ):
            yield {"openai": theirs, "anthropic": claude}


def call(clients, method, names):
    """Calls it with these parameters, and reads a stream to its end."""
    values = {name: method.values[name] for name in sorted({*method.needed, *names})}
    if "previous_response_id" in values:
        values["previous_response_id"] = clients["openai"].responses.create(model="demo/chat", input="One").id
    answer = method.of(clients)(**values)
    return list(answer) if values.get("stream") else answer


def cases():
    for method in METHODS:
        for name in sorted(method.values):
            yield pytest.param(method, name, id=f"{method.name}-{name}")


BY_METHOD = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)


@BY_METHOD
def test_each_parameter_of_the_sdk_has_a_value(clients, method):
    named = {*inspect.signature(method.of(clients)).parameters} - {*OF_THE_CLIENT, *method.local}
    assert named == set(method.values)


@pytest.mark.parametrize(("method", "name"), list(cases()))
def test_the_demo_takes_the_parameter(clients, method, name):
    names = [name, *method.companions.get(name, ())]
    if name not in method.refused:
        assert call(clients, method, names)
        return
    with pytest.raises((openai.BadRequestError, anthropic.BadRequestError), match=name):
        call(clients, method, names)


@BY_METHOD
@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
def test_the_demo_takes_all_parameters_at_once(clients, method, streamed):
    left_out = {*method.apart, *method.refused} | (set() if streamed else {"stream", "stream_options"})
    assert call(clients, method, set(method.values) - left_out)
