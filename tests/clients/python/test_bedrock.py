"""botocore as the other end of Bedrock: it says what a signature must be, which requests and answers are valid, and what
an event stream means. Its own client reads the same server that the gateway does."""

import base64
import datetime
import json
import re

import botocore.session
import openai
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.eventstream import EventStreamBuffer
from botocore.validate import ParamValidator
from eventstream import event, frame
from upstreams import (
    HELLO,
    IMAGE,
    PIXEL,
    TIME,
    UNTIDY,
    WEATHER,
    Answer,
    ask,
    calls_of,
    check_said,
    function,
    gateway,
    history,
    reasoning_of,
    stream,
)

pytestmark = pytest.mark.usefixtures("no_faults")

REGION = "eu-west-1"
ID, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
TOKEN = "IQoJb3JpZ2luX2VjEXAMPLE//////////wEaCXVzLWVhc3QtMSJH+a/b=="
CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
PROFILE = "arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.anthropic.claude-3-haiku-20240307-v1:0"
MODELS = {"aws/" + CLAUDE: CLAUDE, "aws/profile": PROFILE, "aws/nova": "eu.amazon.nova-lite-v1:0"}

CONFIG = """
[[providers]]
name = "aws"
api = "bedrock"
base_url = "{url}"
region = "{region}"

[[providers]]
name = "keyed"
api = "bedrock"
base_url = "{url}"
region = "{region}"
api_key = "a-bedrock-key"

[[providers]]
name = "many"
api = "bedrock"
base_url = "{url}"
region = "{region}"
embedding_batch = 96

[[models]]
id = "aws/{claude}"
max_output_tokens = 4096
pricing = {{ official_input_per_m = 3.0, official_output_per_m = 15.0, cached_input_per_m = 0.3, cache_write_per_m = 3.75, currency = "USD" }}

[[models]]
id = "aws/profile"
upstream_model = "{profile}"

[[models]]
id = "aws/nova"
upstream_model = "eu.amazon.nova-lite-v1:0"

[[models]]
id = "aws/thinker"
upstream_model = "eu.anthropic.claude-sonnet-4-20250514-v1:0"

[[models]]
id = "keyed/nova"
upstream_model = "eu.amazon.nova-lite-v1:0"

[[models]]
id = "aws/titan"
upstream_model = "amazon.titan-embed-text-v2:0"
category = ["embedding"]
embedding_dimensions = [256, 1024]

[[models]]
id = "many/cohere-embed"
upstream_model = "cohere.embed-multilingual-v3"
category = ["embedding"]
"""


@pytest.fixture(scope="module", params=[None, TOKEN], ids=["key", "session"])
def token(request):
    return request.param


@pytest.fixture(scope="module")
def clients(server, tmp_path_factory):
    """Gateways with a plain key pair and with a session's, started when they are first asked for."""
    started = {}

    def with_token(token):
        if token not in started:
            config = CONFIG.format(url=server.url, region=REGION, claude=CLAUDE, profile=PROFILE)
            environment = {"AWS_ACCESS_KEY_ID": ID, "AWS_SECRET_ACCESS_KEY": SECRET}
            if token:
                environment["AWS_SESSION_TOKEN"] = token
            manager = gateway(tmp_path_factory.mktemp("bedrock"), config, **environment)
            started[token] = (manager, manager.__enter__())
        return started[token][1]

    yield with_token
    for manager, _ in started.values():
        manager.__exit__(None, None, None)


@pytest.fixture(scope="module")
def client(clients):
    return clients(None)


@pytest.fixture(scope="module")
def boto(server):
    """botocore's own client on the same server."""
    session = botocore.session.Session()
    session.set_credentials(ID, SECRET)
    settings = Config(retries={"total_max_attempts": 1}, proxies={})
    return session.create_client("bedrock-runtime", region_name=REGION, endpoint_url=server.url, config=settings)


# --- What botocore says of requests and answers -------------------------------------------------------------------


def check_signature(server, request, token):
    """The signature is the one that botocore makes of the same request at the same time."""
    found = re.fullmatch(
        rf"AWS4-HMAC-SHA256 Credential={ID}/(\d{{8}})/{REGION}/bedrock/aws4_request, ?"
        r"SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})",
        request.header("authorization"),
    )
    assert found, request.header("authorization")
    date, names, signature = found.groups()
    names = names.split(";")
    stamp = request.header("x-amz-date")
    made = datetime.datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
    assert abs(datetime.datetime.now(datetime.timezone.utc) - made) < datetime.timedelta(minutes=5)
    assert stamp.startswith(date) and names == sorted(names)
    assert {"host", "x-amz-date"} <= set(names)
    assert request.header("x-amz-security-token") == token and ("x-amz-security-token" in names) == bool(token)
    # The header is optional for Bedrock; the signature covers the body's hash without it.
    assert request.header("x-amz-content-sha256") is None
    headers = {name: value for name, value in request.headers if name.lower() in names}
    assert {name.lower() for name in headers} == set(names), "a header was signed and not sent"
    assert headers.get("host", headers.get("Host")) == f"127.0.0.1:{server.port}"
    theirs = AWSRequest(request.method, server.url + request.path, headers, request.body)
    theirs.context["timestamp"] = stamp
    signer = SigV4Auth(Credentials(ID, SECRET, token), "bedrock", REGION)
    canonical = signer.canonical_request(theirs)
    expected = signer.signature(signer.string_to_sign(theirs, canonical), theirs)
    assert signature == expected, canonical
    assert SECRET not in repr(request.headers)


def valid(shape, value):
    """The value is what the service model says: every member known and of the right type."""
    report = ParamValidator().validate(value, shape)
    assert not report.has_errors(), report.generate_report()
    return value


def check_converse(boto, operation, request, model):
    body = request.json
    valid(boto.meta.service_model.operation_model(operation).input_shape, {"modelId": model, **body})
    return body


def answers(server, boto, body, model, token=None):
    """Answers a Converse request once it has been checked."""
    valid(boto.meta.service_model.operation_model("Converse").output_shape, body)

    def answer(request):
        assert request.path.endswith("/converse")
        check_signature(server, request, token)
        check_converse(boto, "Converse", request, model)
        return Answer(body)

    return answer


def exception(kind, message):
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return frame(headers, json.dumps({"message": message}).encode())


def delta(index, **what):
    return event("contentBlockDelta", contentBlockIndex=index, delta=what)


def streams(server, boto, pieces, model, token=None, **more):
    """Answers a ConverseStream request once it has been checked."""
    pieces = list(pieces)

    def answer(request):
        assert request.path.endswith("/converse-stream")
        check_signature(server, request, token)
        check_converse(boto, "ConverseStream", request, model)
        return stream(pieces, "application/vnd.amazon.eventstream", **more)

    return answer


USAGE = {
    "inputTokens": 10,
    "outputTokens": 5,
    "totalTokens": 22,
    "cacheReadInputTokens": 4,
    "cacheWriteInputTokens": 3,
}
TEXT = [
    event("messageStart", role="assistant"),
    delta(0, text="Grüße, "),
    delta(0, text='👍 "you"\n'),
    event("contentBlockStop", contentBlockIndex=0),
    delta(1, text="Bye."),
    event("contentBlockStop", contentBlockIndex=1),
    event("messageStop", stopReason="end_turn"),
    event("metadata", usage=USAGE, metrics={"latencyMs": 12}),
]
TOOLS = [
    event("messageStart", role="assistant"),
    delta(0, text="I will look."),
    event("contentBlockStop", contentBlockIndex=0),
    event("contentBlockStart", contentBlockIndex=1, start={"toolUse": {"toolUseId": "tooluse_a", "name": "get_weather"}}),
    delta(1, toolUse={"input": ""}),
    delta(1, toolUse={"input": '{"city": "Zür'}),
    delta(1, toolUse={"input": 'ich", "days": 2}'}),
    event("contentBlockStop", contentBlockIndex=1),
    event("contentBlockStart", contentBlockIndex=2, start={"toolUse": {"toolUseId": "tooluse_b", "name": "now"}}),
    event("contentBlockStop", contentBlockIndex=2),
    event("messageStop", stopReason="tool_use"),
    event("metadata", usage=USAGE, metrics={"latencyMs": 12}),
]


def message(*content, stop="end_turn"):
    return {
        "output": {"message": {"role": "assistant", "content": list(content)}},
        "stopReason": stop,
        "usage": USAGE,
        "metrics": {"latencyMs": 12},
    }


# --- Signatures -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
def test_signature_and_address_are_botocores(server, boto, clients, token, model, streamed):
    upstream_model = MODELS[model]
    # botocore's client calls this path for the model. The signature covers the path with its escapes.
    server.reset(stream(TEXT, "application/vnd.amazon.eventstream") if streamed else Answer(message({"text": "Hi"})))
    said = [{"role": "user", "content": [{"text": "Hello there"}]}]
    if streamed:
        list(boto.converse_stream(modelId=upstream_model, messages=said)["stream"])
    else:
        boto.converse(modelId=upstream_model, messages=said)
    path = server.last.path
    assert ":" not in path and path.count("/") == 3
    check_signature(server, server.last, None)

    if streamed:
        server.reset(streams(server, boto, TEXT, upstream_model, token))
    else:
        server.reset(answers(server, boto, message({"text": "Hi"}), upstream_model, token))
    answer = ask(clients(token), streamed, model=model, messages=[{"role": "user", "content": "Grüße 👍"}])
    assert server.last.path == path
    assert answer.choices[0].finish_reason == "stop"


def test_a_bedrock_key_is_no_signature(server, client):
    server.reset(Answer(message({"text": "Hi"})))
    client.chat.completions.create(model="keyed/nova", messages=HELLO)
    assert server.last.header("authorization") == "Bearer a-bedrock-key"
    assert server.last.header("x-amz-date") is None


# --- Converse ---------------------------------------------------------------------------------------------------


def test_an_answer(server, boto, client):
    body = message({"text": "Grüße, "}, {"text": "👍"})
    server.reset(answers(server, boto, body, CLAUDE))
    answer = client.chat.completions.create(
        model="aws/" + CLAUDE, messages=HELLO, max_tokens=50, temperature=0.5, stop=["END"]
    )
    assert answer.choices[0].message.content == "Grüße, 👍"
    sent = server.last.json
    assert sent["system"] == [{"text": "Be kind."}]
    assert sent["messages"] == [{"role": "user", "content": [{"text": "Hello there"}]}]
    assert sent["inferenceConfig"] == {"maxTokens": 50, "temperature": 0.5, "stopSequences": ["END"]}
    usage = answer.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (17, 5, 22)
    assert usage.prompt_tokens_details.cached_tokens == 4
    assert usage.cost_usd == pytest.approx((10 * 3.0 + 4 * 0.3 + 3 * 3.75 + 5 * 15.0) / 1e6)


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
def test_a_whole_conversation(server, boto, client, streamed):
    """A picture, two tools, their results: every request is one that the service model knows."""
    made = [
        {"text": "I will look."},
        {"toolUse": {"toolUseId": "tooluse_a", "name": "get_weather", "input": {"city": "Zürich", "days": 2}}},
        {"toolUse": {"toolUseId": "tooluse_b", "name": "now", "input": {}}},
    ]
    if streamed:
        server.reset(streams(server, boto, TOOLS, CLAUDE))
    else:
        server.reset(answers(server, boto, message(*made, stop="tool_use"), CLAUDE))
    request = {
        "model": "aws/" + CLAUDE,
        "tools": [WEATHER, TIME, function("now")],
        "messages": [
            HELLO[0],
            {"role": "user", "content": [{"type": "text", "text": "Where is this?"}, IMAGE]},
        ],
    }
    choice = ask(client, streamed, **request).choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.content == "I will look."
    assert calls_of(choice.message) == [("get_weather", {"city": "Zürich", "days": 2}), ("now", {})]
    sent = server.last.json
    picture = sent["messages"][0]["content"][1]["image"]
    assert picture["format"] == "png" and base64.b64decode(picture["source"]["bytes"]) == base64.b64decode(PIXEL)
    specs = [tool["toolSpec"] for tool in sent["toolConfig"]["tools"] if "toolSpec" in tool]
    assert [spec["name"] for spec in specs] == ["get_weather", "get_time", "now"]
    # Every key of the client's schema arrives.
    assert specs[0]["inputSchema"]["json"] == WEATHER["function"]["parameters"]

    ids = [call.id for call in choice.message.tool_calls]
    request["messages"] += [
        history(choice.message),
        {"role": "tool", "tool_call_id": ids[0], "content": "sunny"},
        {"role": "tool", "tool_call_id": ids[1], "content": "12:00"},
        {"role": "user", "content": "So?"},
    ]
    # Tools in the history need declarations, even where the client sends none.
    for tools in (request["tools"], None):
        server.reset(streams(server, boto, TEXT, CLAUDE) if streamed else answers(server, boto, message({"text": "Bye."}), CLAUDE))
        request["tools"] = tools or openai.omit
        answer = ask(client, streamed, **request)
        assert answer.choices[0].message.content.endswith("Bye.")
        sent = server.last.json
        assert [turn["role"] for turn in sent["messages"]] == ["user", "assistant", "user"]
        uses = [block["toolUse"] for block in sent["messages"][1]["content"] if "toolUse" in block]
        results = [block["toolResult"] for block in sent["messages"][2]["content"] if "toolResult" in block]
        if uses or tools:
            assert sent["toolConfig"]["tools"]
            assert [use["input"] for use in uses] == [{"city": "Zürich", "days": 2}, {}]
            assert [use["toolUseId"] for use in uses] == [result["toolUseId"] for result in results]


@pytest.mark.parametrize("model", MODELS)
def test_nothing_of_an_untidy_history_is_lost(server, boto, client, model):
    server.reset(answers(server, boto, message({"text": "Fine."}), MODELS[model]))
    client.chat.completions.create(model=model, messages=UNTIDY, tools=[WEATHER, TIME])
    sent = server.last.json
    check_said(json.dumps([sent["system"], sent["messages"]], ensure_ascii=False))
    roles = [turn["role"] for turn in sent["messages"]]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    uses = [block["toolUse"]["toolUseId"] for turn in sent["messages"] for block in turn["content"] if "toolUse" in block]
    results = [
        block["toolResult"]["toolUseId"] for turn in sent["messages"] for block in turn["content"] if "toolResult" in block
    ]
    assert uses == results and len(set(uses)) == 3


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("guardrail_intervened", "content_filter"),
        ("content_filtered", "content_filter"),
    ],
)
def test_finish_reasons(server, boto, client, theirs, ours):
    server.reset(answers(server, boto, message({"text": "Some"}, stop=theirs), PROFILE))
    answer = client.chat.completions.create(model="aws/profile", messages=HELLO)
    server.check()
    assert answer.choices[0].finish_reason == ours
    server.reset(streams(server, boto, [*TEXT[:6], event("messageStop", stopReason=theirs), TEXT[7]], PROFILE))
    chunks = list(client.chat.completions.create(model="aws/profile", messages=HELLO, stream=True))
    server.check()
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason] == [ours]


@pytest.mark.parametrize(
    ("status", "kind", "raised", "code"),
    [
        (429, "ThrottlingException", openai.RateLimitError, "upstream_rate_limited"),
        (400, "ServiceQuotaExceededException", openai.RateLimitError, "upstream_rate_limited"),
        (429, "ModelNotReadyException", openai.RateLimitError, "upstream_rate_limited"),
        (400, "ValidationException", openai.BadRequestError, "invalid_request"),
        (403, "AccessDeniedException", openai.InternalServerError, "upstream_auth_error"),
        (500, "InternalServerException", openai.InternalServerError, "upstream_error"),
        (503, "ServiceUnavailableException", openai.InternalServerError, "upstream_overloaded"),
        (424, "ModelErrorException", openai.InternalServerError, "upstream_error"),
    ],
)
def test_errors(server, boto, client, status, kind, raised, code):
    headers = {"content-type": "application/json", "x-amzn-errortype": kind + ":http://internal.amazon.com/"}
    server.reset(Answer({"message": "No, not today."}, status, headers))
    theirs = getattr(boto.exceptions, kind)
    with pytest.raises(theirs):
        boto.converse(modelId=PROFILE, messages=[{"role": "user", "content": [{"text": "Hi"}]}])
    for streamed in (False, True):
        with pytest.raises(raised) as caught:
            client.chat.completions.create(model="aws/profile", messages=HELLO, stream=streamed)
        assert caught.value.code == code


# --- ConverseStream ---------------------------------------------------------------------------------------------


def whole(pieces):
    return b"".join(pieces)


def cuts():
    """Awkward ways for the network to cut the two streams."""
    for name, script in (("text", TEXT), ("tools", TOOLS)):
        stream_ = whole(script)
        first = len(script[0])
        yield f"{name}-in-frames", script, script
        yield f"{name}-at-once", script, [stream_]
        yield f"{name}-in-bytes", script, [stream_[at : at + 1] for at in range(len(stream_))]
        yield f"{name}-in-primes", script, [stream_[at : at + 7] for at in range(0, len(stream_), 7)]
        # Inside the lengths, the prelude's checksum, a header's name, its value, the payload, the last checksum, and
        # with the end of a frame and the begin of the next in one piece.
        places = {1, 4, 6, 8, 11, 12, 13, 18, 27, 30, first - 6, first - 4, first - 1, first + 2}
        yield f"{name}-in-fields", script, pieces_at(stream_, places)
        # Inside a letter of several bytes.
        letters = [at for at, byte in enumerate(stream_) if 0x80 <= byte < 0xC0 and at > 12]
        yield f"{name}-in-letters", script, pieces_at(stream_, letters)


def pieces_at(stream_, places):
    places = [0, *sorted(places), len(stream_)]
    return [stream_[begin:end] for begin, end in zip(places, places[1:])]


CUTS = list(cuts())


@pytest.mark.parametrize(("script", "pieces"), [cut[1:] for cut in CUTS], ids=[cut[0] for cut in CUTS])
def test_a_stream_means_what_botocore_reads_of_it(server, boto, client, script, pieces):
    # The encoder above is right: botocore's decoder and its client read what was written.
    buffer = EventStreamBuffer()
    for piece in pieces:
        buffer.add_data(piece)
    assert len(list(buffer)) == len(script) == len([each for each in script if each])
    server.reset(stream(pieces, "application/vnd.amazon.eventstream"))
    said = [{"role": "user", "content": [{"text": "Hi"}]}]
    events = list(boto.converse_stream(modelId=CLAUDE, messages=said)["stream"])
    text, calls, stop, usage = "", {}, None, None
    for each in events:
        (kind, value), = each.items()
        if kind == "contentBlockStart":
            use = value["start"]["toolUse"]
            calls[value["contentBlockIndex"]] = [use["toolUseId"], use["name"], ""]
        elif kind == "contentBlockDelta" and "text" in value["delta"]:
            text += value["delta"]["text"]
        elif kind == "contentBlockDelta":
            calls[value["contentBlockIndex"]][2] += value["delta"]["toolUse"]["input"]
        elif kind == "messageStop":
            stop = value["stopReason"]
        elif kind == "metadata":
            usage = value["usage"]

    server.reset(streams(server, boto, pieces, CLAUDE))
    answer = ask(client, True, model="aws/" + CLAUDE, messages=HELLO, tools=[WEATHER, TIME, function("now")])
    server.check()
    choice = answer.choices[0]
    assert (choice.message.content or "") == text
    assert calls_of(choice.message) == [(name, json.loads(arguments or "{}")) for _, name, arguments in calls.values()]
    assert [call.id for call in choice.message.tool_calls or []] == [call[0] for call in calls.values()]
    assert choice.finish_reason == {"end_turn": "stop", "tool_use": "tool_calls"}[stop]
    assert answer.usage.completion_tokens == usage["outputTokens"]
    assert answer.usage.total_tokens == usage["totalTokens"] == 22
    assert answer.usage.prompt_tokens_details.cached_tokens == usage["cacheReadInputTokens"]


def test_thoughts_and_their_signature_come_back(server, boto, client):
    thinker = "eu.anthropic.claude-sonnet-4-20250514-v1:0"
    script = [
        event("messageStart", role="assistant"),
        delta(0, reasoningContent={"text": "Hm, let "}),
        delta(0, reasoningContent={"text": "me see."}),
        delta(0, reasoningContent={"signature": "EqQBCgIYAhIM/+1gbcDa9GJwZA2b3h=="}),
        event("contentBlockStop", contentBlockIndex=0),
        event("contentBlockStart", contentBlockIndex=1, start={"toolUse": {"toolUseId": "tooluse_a", "name": "now"}}),
        event("contentBlockStop", contentBlockIndex=1),
        event("messageStop", stopReason="tool_use"),
        TEXT[-1],
    ]
    server.reset(streams(server, boto, script, thinker))
    request = {"model": "aws/thinker", "tools": [function("now")], "reasoning_effort": "low", "max_tokens": 3000}
    choice = ask(client, True, messages=HELLO, **request).choices[0]
    server.check()
    assert reasoning_of(choice.message) == "Hm, let me see."
    result = {"role": "tool", "tool_call_id": choice.message.tool_calls[0].id, "content": "12:00"}
    server.reset(answers(server, boto, message({"text": "Noon."}), thinker))
    client.chat.completions.create(messages=[*HELLO, history(choice.message), result], **request)
    turns = server.last.json["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    thoughts = [block["reasoningContent"] for block in turns[1]["content"] if "reasoningContent" in block]
    assert thoughts == [
        {"reasoningText": {"text": "Hm, let me see.", "signature": "EqQBCgIYAhIM/+1gbcDa9GJwZA2b3h=="}}
    ]
    uses = [block["toolUse"]["toolUseId"] for block in turns[1]["content"] if "toolUse" in block]
    assert uses == [turns[2]["content"][0]["toolResult"]["toolUseId"]]


def broken(server, client, pieces, **more):
    server.reset(stream(pieces, "application/vnd.amazon.eventstream", **more))
    with pytest.raises(openai.APIError) as caught:
        for chunk in client.chat.completions.create(model="aws/profile", messages=HELLO, stream=True):
            assert chunk.choices[0].finish_reason is None
    return caught.value


@pytest.mark.parametrize(
    "kind",
    [
        "internalServerException",
        "modelStreamErrorException",
        "validationException",
        "throttlingException",
        "serviceUnavailableException",
    ],
)
@pytest.mark.parametrize("first", [True, False], ids=["first", "mid"])
def test_an_exception_in_a_stream_is_an_error(server, boto, client, kind, first):
    script = [exception(kind, "No, not today.")] if first else [*TEXT[:2], exception(kind, "No, not today.")]
    server.reset(stream(script, "application/vnd.amazon.eventstream"))
    said = [{"role": "user", "content": [{"text": "Hi"}]}]
    with pytest.raises(botocore.exceptions.EventStreamError):
        list(boto.converse_stream(modelId=PROFILE, messages=said)["stream"])
    error = broken(server, client, script)
    if first and kind == "throttlingException":
        assert isinstance(error, openai.RateLimitError)


@pytest.mark.parametrize("kept", [1, 2, 4, 6], ids=lambda kept: f"{kept}-frames")
def test_a_stream_that_ends_early_never_looks_complete(server, client, kept):
    broken(server, client, TEXT[:kept])
    broken(server, client, [whole(TEXT[:kept]), TEXT[kept][:9]])
    broken(server, client, TEXT[:kept], breaks=True)


@pytest.mark.parametrize("at", [0, 5, 9, 20, -20, -2])
def test_a_frame_that_was_damaged_is_an_error(server, boto, client, at):
    damaged = bytearray(TEXT[1])
    damaged[at] ^= 1
    pieces = [TEXT[0], bytes(damaged), *TEXT[2:]]
    buffer = EventStreamBuffer()
    buffer.add_data(whole(pieces))
    if at not in (0, 5):  # a length that is wrong may also mean that more is waited for
        with pytest.raises(botocore.eventstream.ParserError):
            list(buffer)
    broken(server, client, pieces)


# --- Embeddings -------------------------------------------------------------------------------------------------


def test_titan_embeds_one_text_a_call(server, boto, client):
    def answer(request):
        check_signature(server, request, None)
        assert request.path.endswith("/invoke")
        assert request.json["dimensions"] == 256
        vector = [float(len(request.json["inputText"]))] + [0.5] * 255
        return Answer({"embedding": vector, "inputTextTokenCount": 3})

    server.reset(answer)
    texts = ["One", "Grüße"]
    client_ = client.with_options()
    client_._strict_response_validation = False
    vectors = client_.embeddings.create(model="aws/titan", input=texts, dimensions=256)
    server.check()
    assert [vector.embedding[:2] for vector in vectors.data] == [[3.0, 0.5], [5.0, 0.5]]
    assert len(server.requests) == 2 and vectors.usage.prompt_tokens == 6


def test_cohere_embeds_several(server, client):
    def answer(request):
        check_signature(server, request, None)
        texts = request.json["texts"]
        assert request.json["input_type"]
        vectors = [[float(len(text)), 0.25] for text in texts]
        if request.json.get("embedding_types") == ["float"]:
            return Answer({"id": "e1", "embeddings": {"float": vectors}, "response_type": "embeddings_by_type"})
        return Answer({"id": "e1", "embeddings": vectors, "response_type": "embeddings_floats"})

    server.reset(answer)
    vectors = client.embeddings.create(model="many/cohere-embed", input=["One", "Three"], encoding_format="float")
    server.check()
    assert [vector.embedding for vector in vectors.data] == [[3.0, 0.25], [5.0, 0.25]]
    assert len(server.requests) == 1
