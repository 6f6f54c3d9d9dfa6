"""Every model of the shipped catalogue, and some more of the dialects that it has none of, in every conversation: the
vendors' own packages check each request and write each answer.

A case that fails because of a fault that is known stands in vendors/known.txt with the fault. When it is mended, the case
passes, the run fails, and the line goes.
"""

import base64
import contextlib
import dataclasses
import http.client
import json
import os
import re
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai
import pytest
from conversations import CONVERSATIONS
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from processes import ROOT
from upstreams import KEY, check_said, gateway, upstream
from vendors import VENDORS, Recorder, known
from vendors.common import ARGUMENTS, SIGNATURE, TEXT, Invalid
from vendors.others import VECTOR

CATALOGUE = json.loads((Path(ROOT) / "crates/gw-engine/data/catalogue.json").read_text(encoding="utf-8"))
KEYS = {vendor.api: vendor.key for vendor in VENDORS}
APIS = {"anthropic": "anthropic", "google": "gemini", "mistral": "mistral", "cohere": "cohere", "amazon": "bedrock"}
# The path of a dialect's base URL below the server's address.
BASES = {"openai": "/{name}/v1", "mistral": "/mistral/v1"}
# Dialects and models that the shipped catalogue does not have, with the features of the models beside them.
CLAUDES = [
    "opus-5-5",
    "opus-5",
    "opus-4-8",
    "opus-4-6-v1",
    "opus-4-5-20251101-v1:0",
    "sonnet-5-5",
    "sonnet-5",
    "sonnet-4-6",
    "haiku-5-5",
    "haiku-4-5-20251001-v1:0",
]
MORE = {
    **{f"amazon/claude-{name}": ("us.anthropic.claude-" + name, "anthropic/claude-opus-5-5") for name in CLAUDES},
    **{
        f"vertex/claude-{name.split('@')[0]}": ("claude-" + name, "anthropic/claude-opus-5-5")
        for name in (
            "opus-5-5",
            "opus-5",
            "opus-4-8",
            "opus-4-6",
            "opus-4-5@20251101",
            "sonnet-5-5",
            "sonnet-4-6",
            "haiku-5-5",
            "haiku-4-5@20251001",
        )
    },
    **{f"azure/{name}": (name, "openai/" + name) for name in ("gpt-5.4", "gpt-5-mini", "gpt-4o", "o3")},
    **{
        f"vertex/{name}": (name, "google/" + name)
        for name in (
            "gemini-4-argon",
            "gemini-3.8-flash",
            "gemini-3.1-pro-preview",
            "gemini-2.5-pro",
            "gemini-2.5-flash",
        )
    },
    **{f"local/{name}": (name, "deepseek/deepseek-v4-flash") for name in ("llama3.2:3b", "qwen3:8b", "gpt-oss:20b")},
}
EXTRA = {
    "azure": 'api = "azure"\napi_version = "2024-10-21"\n',
    "vertex": 'api = "vertex"\nproject = "a-project"\nregion = "europe-west4"\n',
    "local": 'api = "ollama"\n',
}


# The embedding models, by name.
EMBEDS = {
    **{entry["id"]: entry["upstream_model"] for entry in CATALOGUE if "embedding" in entry["category"]},
    "vertex/gemini-embedding-001": "gemini-embedding-001",
    "amazon/titan": "amazon.titan-embed-text-v2:0",
    "azure/text-embedding-3-small": "text-embedding-3-small",
    "local/all-minilm": "all-minilm",
}


def chats():
    """The chat models by name, with what they take and do."""
    models = {
        entry["id"]: {**entry, "upstream": entry["upstream_model"]}
        for entry in CATALOGUE
        if "chat" in entry["category"]
    }
    for name, (upstream_model, like) in MORE.items():
        models[name] = {**models[like], "id": name, "upstream": upstream_model}
    return models


MODELS = chats()
KNOWN = known.read()


def config(url, setting=""):
    """Every provider of those models, on the loopback. `setting` is one more of each provider."""
    for name in sorted({name.split("/")[0] for name in [*MODELS, *EMBEDS]}):
        api = APIS.get(name, "openai")
        yield f'[[providers]]\nname = "{name}"\n'
        yield EXTRA.get(name, f'api = "{api}"\n' + ('region = "eu-west-1"\n' if api == "bedrock" else ""))
        spoken = {"azure": "azure", "vertex": "vertex", "local": "ollama"}.get(name, api)
        yield f'base_url = "{url}{BASES.get(spoken, "").format(name=name)}"\n'
        if KEYS[spoken]:
            yield f'api_key = "{KEYS[spoken]}"\n'
        yield f"{setting}\n"
    for name, (upstream_model, like) in MORE.items():
        entry = MODELS[like]
        members = {
            key: entry[key] for key in ("category", "features", "max_output_tokens", "context_length") if key in entry
        }
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in members.items())
        modalities = f'modalities = {{ input = {json.dumps(entry["modalities"]["input"])}, output = ["text"] }}\n'
        yield f'[[models]]\nid = "{name}"\nupstream_model = "{upstream_model}"\n{lines}{modalities}\n'
    for name, upstream_model in EMBEDS.items():
        if not any(entry["id"] == name for entry in CATALOGUE):
            yield f'[[models]]\nid = "{name}"\nupstream_model = "{upstream_model}"\ncategory = ["embedding"]\n\n'
    # Faults are what this looks for: none of them may rest a model.
    yield "[routing]\nretries = 0\nmax_attempts = 1\n[routing.breaker]\nfailures = 10000\n"


def cases():
    """Each model in each conversation."""
    for model in MODELS:
        for conversation in CONVERSATIONS:
            fault = KNOWN.get((model, conversation.name))
            marks = [pytest.mark.xfail(reason=fault, strict=True, raises=AssertionError)] if fault else []
            yield pytest.param(
                model, conversation.name, id=f"{model}-{conversation.name.replace(' ', '_')}", marks=marks
            )


# --- The walk -----------------------------------------------------------------------------------------------------


class Client:
    """One connection to the gateway."""

    def __init__(self, url):
        self.address = urllib.parse.urlsplit(url).netloc
        self.connection = http.client.HTTPConnection(self.address, timeout=60)

    def ask(self, body):
        headers = {"authorization": "Bearer " + KEY, "content-type": "application/json"}
        self.connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        response = self.connection.getresponse()
        return response.status, response.read()


class Answered:
    """The client's result of an answer, plain or streamed."""

    def __init__(self, streamed, body):
        self.text, self.names, self.arguments, self.finish = "", [], [], set()
        self.message = {"role": "assistant", "content": ""}
        if streamed:
            self._chunks(body)
        else:
            whole = ChatCompletion.model_validate_json(body)
            self.choices = len(whole.choices)
            self.finish = {choice.finish_reason for choice in whole.choices}
            message = whole.choices[0].message
            self.text = message.content
            self.names = [call.function.name for call in message.tool_calls or []]
            self.arguments = [call.function.arguments for call in message.tool_calls or []]
            # The message with all its members, as a client sends it back.
            self.message = json.loads(body)["choices"][0]["message"]

    def _chunks(self, body):
        events = [event.removeprefix("data: ") for event in body.decode().split("\n\n") if event.startswith("data: ")]
        assert events[-1] == "[DONE]", events[-1]
        chunks = [ChatCompletionChunk.model_validate_json(event) for event in events[:-1]]
        self.choices = 1 + max(choice.index for chunk in chunks for choice in chunk.choices)
        for choice in (choice for chunk in chunks for choice in chunk.choices):
            if choice.finish_reason:
                self.finish.add(choice.finish_reason)
            if choice.index == 0:
                put_together(self.message, choice.delta)
        self.text = self.message["content"]
        calls = self.message.get("tool_calls", [])
        self.names = [call["function"]["name"] for call in calls]
        self.arguments = [call["function"]["arguments"] for call in calls]


def put_together(message, delta):
    """A message, as clients put it together: texts are joined, lists go on, calls are told by their index."""
    message["content"] += delta.content or ""
    for name, value in (delta.model_extra or {}).items():
        message[name] = message[name] + value if name in message else value
    for call in delta.tool_calls or []:
        calls = message.setdefault("tool_calls", [])
        if call.index == len(calls):
            calls.append({"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": ""}})
        calls[call.index]["function"]["arguments"] += call.function.arguments or ""


# How what the vendors sign may stand in a message: as it is, and of Google's bytes the base64 of it.
SIGNATURES = (SIGNATURE, base64.b64encode(SIGNATURE.encode()).decode())


def results_of(message):
    return [
        {"role": "tool", "tool_call_id": call["id"], "content": f"result {at}"}
        for at, call in enumerate(message["tool_calls"])
    ]


def run(client, recorder, case, model, conversation, streamed):
    """Runs one case. Raises AssertionError with the fault."""
    capable = set(model["features"]) | set(model["modalities"]["input"])
    body = {"model": model["id"], "messages": conversation.first(case), "stream": streamed, **conversation.more}
    status, answer = client.ask(body)
    if status == 200 and conversation.echo:
        message = Answered(streamed, answer).message
        signatures = [signature for signature in SIGNATURES if signature in json.dumps(message)]
        body["messages"] = [*body["messages"], message, *results_of(message)]
        status, answer = client.ask(body)
        echoed = recorder.requests[case][-1].body.decode()
        assert all(signature in echoed for signature in signatures), f"a signature is lost:\n{message}\n{echoed[:3000]}"
    sent = recorder.requests.get(case, [])
    faults = recorder.faults.get(case)
    assert not faults, f"{faults[0]}\n{sent[-1].path}\n{sent[-1].body.decode()[:3000]}"
    if status != 200:
        error = json.loads(answer)["error"]
        assert not sent, (
            f"status {status} after a request that the vendor took: {error}\n{sent[-1].body.decode()[:3000]}"
        )
        assert status == 400 and error["code"].startswith("unsupported_"), (status, error)
        assert conversation.refusable or not set(conversation.needs) <= capable, error
        return
    warnings = set(re.findall(r"parameter_\w+:(\w+)", answer.decode()))
    check_answer(Answered(streamed, answer), conversation, warnings)
    if conversation.name == "untidy":
        body = sent[-1].json
        # Each dialect has its own place for the system prompt, which comes first.
        check_said(json.dumps([body.get("system"), body], ensure_ascii=False))


def check_answer(answered, conversation, warnings):
    assert answered.choices == conversation.more.get("n", 1)
    # A wish that the gateway said it could not put in this vendor's words is no promise.
    if not warnings.isdisjoint({"parallel_tool_calls", "tool_choice"}):
        assert answered.finish == {"tool_calls" if answered.names else "stop"}, answered.finish
        return
    assert answered.finish == {"tool_calls" if conversation.calls else "stop"}, answered.finish
    assert answered.names == list(conversation.calls)
    assert all(json.loads(arguments) == ARGUMENTS for arguments in answered.arguments), answered.arguments
    if conversation.calls:
        return
    if "response_format" in conversation.more:
        assert json.loads(answered.text) == json.loads(conversation.says)
    else:
        assert answered.text == conversation.says


@pytest.fixture(scope="module")
def vendors(tmp_path_factory):
    """A gateway before all vendors: an OpenAI client of it, and the record of what the vendors got."""
    with serve(tmp_path_factory.mktemp("vendors")) as both:
        yield both


@contextlib.contextmanager
def serve(folder):
    recorder = Recorder()
    with upstream() as server:
        server.reset(recorder)
        with gateway(folder, "".join(config(server.url))) as client:
            yield client, recorder


@pytest.fixture(scope="module")
def walked(vendors):
    """The fault of each case, by model and conversation, or None."""
    found = walk(*vendors, list(MODELS.values()))
    if os.environ.get("UPDATE_KNOWN"):
        known.write({case: fault for case, fault in KNOWN.items() if case in found})
    return found


def walk(client, recorder, models):
    """Every conversation with each of the models: the faults by model and conversation."""
    found = {}

    def walk_share(share):
        connection = Client(str(client.base_url))
        for number, model, conversation in share:
            try:
                for streamed in (False, True):
                    case = f"case-{number}-{'streamed' if streamed else 'plain'}"
                    run(connection, recorder, case, model, conversation, streamed)
            except Exception as fault:  # noqa: BLE001 - told by the test of the case
                found[model["id"], conversation.name] = fault

    pairs = [(model, conversation) for model in models for conversation in CONVERSATIONS]
    numbered = [(number, *pair) for number, pair in enumerate(pairs)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(walk_share, [numbered[at::8] for at in range(8)]))
    return found


@pytest.mark.parametrize(("model", "conversation"), list(cases()))
def test_the_vendor_takes_it(walked, model, conversation):
    fault = walked.get((model, conversation))
    if isinstance(fault, AssertionError):
        raise fault
    assert fault is None, repr(fault)


def strange(body):
    """The body with a member too many: at its top, and in the first object of each of its lists."""
    yield {**body, "surprise": 1}
    for name, value in body.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield {**body, name: [{**value[0], "surprise": 1}, *value[1:]]}


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.api)
def test_the_vendors_refuse_what_they_do_not_know(walked, vendors, vendor):
    """The checks above mean something: a request of each dialect, as it came and with a member too many."""
    requests = [request for case in vendors[1].requests.values() for request in case if vendor.takes(request.path)]
    request = next(request for request in requests if "tools" in request.json or "toolConfig" in request.json)
    vendor.read(request)
    for body in strange(request.json):
        with pytest.raises(Invalid):
            vendor.read(dataclasses.replace(request, body=json.dumps(body).encode()))


# --- Embeddings and text completions ------------------------------------------------------------------------------


def no_fault(recorder):
    """Tells what the vendors refused since it was asked last."""
    faults = [recorder.faults.pop(case) for case in list(recorder.faults) if case == "no case"]
    assert not faults, faults[0][0] + "\n" + recorder.requests["no case"][-1].body.decode()[:3000]


@pytest.mark.parametrize("texts", [["One"], ["One", "Grüße 👍", "Three"]], ids=["one", "three"])
@pytest.mark.parametrize("model", EMBEDS)
def test_the_vendor_takes_texts_to_embed(vendors, model, texts):
    client, recorder = vendors
    try:
        answer = client.embeddings.create(model=model, input=texts, encoding_format="float")
    finally:
        no_fault(recorder)
    assert [vector.embedding for vector in answer.data] == [VECTOR] * len(texts)


@pytest.mark.parametrize("model", EMBEDS)
def test_the_vendor_takes_the_length_of_a_vector(vendors, model):
    """The vendors here always answer with three numbers, which is an error. A model without lengths refuses the member."""
    client, recorder = vendors
    with pytest.raises(openai.APIStatusError) as caught:
        client.embeddings.create(model=model, input="One", dimensions=256)
    no_fault(recorder)
    has_dimensions = any(entry["id"] == model for entry in CATALOGUE) and model != "mistral/mistral-embed"
    assert caught.value.code == ("upstream_invalid_response" if has_dimensions else "unsupported_parameter")


@pytest.fixture(scope="module")
def lenient(vendors):
    """A client that takes the chunks of a text completion: OpenAI's API streams choices that go on, its type has none."""
    client = vendors[0].with_options()
    client._strict_response_validation = False
    return client


COMPLETE = ["openai/gpt-4o", "xai/grok-4.7", "mistral/codestral-2508", "mistral/mistral-small-2603", "local/qwen3:8b"]
COMPLETE += ["anthropic/claude-sonnet-4-6", "google/gemini-3.8-flash", "amazon/nova-lite", "cohere/command-a-03-2025"]
SAMPLED = {"max_tokens": 40, "temperature": 0.5, "stop": ["END"]}


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("model", COMPLETE)
def test_the_vendor_takes_a_text_to_complete(vendors, lenient, model, streamed):
    recorder = vendors[1]
    for prompt in ("Once upon a time", ["Once", "Twice"]):
        try:
            answer = lenient.completions.create(model=model, prompt=prompt, stream=streamed, **SAMPLED)
            choices = [choice for chunk in answer for choice in chunk.choices] if streamed else answer.choices
        finally:
            no_fault(recorder)
        texts = {}
        for choice in choices:
            texts[choice.index] = texts.get(choice.index, "") + choice.text
        assert texts == {at: TEXT for at in range(1 if isinstance(prompt, str) else 2)}


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("model", ["openai/gpt-4o", "mistral/codestral-2508", "local/qwen3:8b"])
def test_the_vendor_takes_what_comes_after(vendors, lenient, model, streamed):
    recorder = vendors[1]
    try:
        answer = lenient.completions.create(
            model=model, prompt="Once", suffix="ever after.", stream=streamed, **SAMPLED
        )
        choices = [choice for chunk in answer for choice in chunk.choices] if streamed else answer.choices
    finally:
        no_fault(recorder)
    assert "".join(choice.text for choice in choices) == TEXT
