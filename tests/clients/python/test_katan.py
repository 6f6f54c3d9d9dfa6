"""llm-katan as the upstream of every dialect that it speaks: plain, streamed, with tools, and in every trouble that it has."""

import sys
import time

import openai
import pytest
from processes import HERE, running
from upstreams import IMAGE, STREAMED, TIME, WEATHER, ask, calls_of, gateway

HELLO = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Grüße 👍 to you"}]
# The provider entry of each dialect. llm-katan validates these keys below /keyed, and accepts any key elsewhere.
DIALECTS = {
    "openai": 'api = "openai"\nbase_url = "{url}/v1"\napi_key = "llm-katan-openai-key"\n',
    "anthropic": 'api = "anthropic"\nbase_url = "{url}"\napi_key = "llm-katan-anthropic-key"\n',
    "vertex": 'api = "vertex"\nbase_url = "{url}"\nproject = "p"\nregion = "europe-west4"\napi_key = "llm-katan-vertexai-key"\n',
    "bedrock": 'api = "bedrock"\nbase_url = "{url}"\nregion = "eu-west-1"\napi_key = "llm-katan-bedrock-key"\n',
    "azure": 'api = "azure"\nbase_url = "{url}"\napi_version = "2024-10-21"\napi_key = "llm-katan-azure-key"\n',
}
# llm-katan streams server-sent events with the content type of Bedrock's event streams, which no client can read.
READABLE = [name for name in DIALECTS if name != "bedrock"]
EVERY = pytest.mark.parametrize("dialect", DIALECTS)
TROUBLES = ("well", "keyed", "failing", "limited", "timed-out", "full", "slow", "late")


def config(url):
    yield "[routing]\nretries = 0\n[routing.breaker]\nfailures = 10000\n"
    for dialect, provider in DIALECTS.items():
        for trouble in TROUBLES:
            yield f'[[providers]]\nname = "{dialect}-{trouble}"\n{provider.format(url=f"{url}/{trouble}")}'
            yield "timeouts = { first_token_ms = 250 }\n" if trouble == "late" else ""
            yield f'[[models]]\nid = "{dialect}-{trouble}/katan"\n'
        yield f'[[providers]]\nname = "{dialect}-stranger"\n{provider.format(url=f"{url}/keyed").replace("llm-katan", "no")}'
        yield f'[[models]]\nid = "{dialect}-stranger/katan"\n'


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("katan")
    command = [sys.executable, str(HERE / "katan_server.py"), str(folder)]
    with running(command) as katan, gateway(folder, "".join(config(katan.url))) as client:
        yield client


@STREAMED
@pytest.mark.parametrize("trouble", ["well", "keyed"])
@EVERY
def test_an_answer(client, dialect, trouble, streamed):
    if streamed and dialect not in READABLE:
        with pytest.raises(openai.APIError):
            ask(client, True, model=f"{dialect}-{trouble}/katan", messages=HELLO)
        return
    answer = ask(client, streamed, model=f"{dialect}-{trouble}/katan", messages=HELLO, max_tokens=70, temperature=0.5)
    said = answer.choices[0].message.content
    assert said.startswith("[echo] model=katan") and said.endswith("\nUser: Grüße 👍 to you")
    assert "max_tokens=70" in said
    assert answer.choices[0].finish_reason == "stop"
    usage = answer.usage
    assert usage.completion_tokens == len(said.split()) and usage.prompt_tokens == 6


@STREAMED
@EVERY
def test_a_tool_is_called(client, dialect, streamed):
    """llm-katan always calls the first tool. Of its dialects only Anthropic streams the call."""
    request = {"model": f"{dialect}-well/katan", "messages": HELLO, "tools": [WEATHER, TIME]}
    choice = ask(client, streamed, **request).choices[0]
    assert calls_of(choice.message) == [("get_weather", {"city": "test_city", "days": 1})]
    assert choice.finish_reason == "tool_calls"
    # llm-katan answers a result with another call; this test checks that the history arrives.
    call = choice.message.tool_calls[0]
    called = {"role": "assistant", "tool_calls": [call.model_dump(include={"id", "type", "function"})]}
    called["tool_calls"][0]["function"].pop("parsed_arguments", None)
    result = {"role": "tool", "tool_call_id": call.id, "content": "clear"}
    again = ask(client, streamed, **{**request, "messages": [*HELLO, called, result]}).choices[0]
    assert again.finish_reason == "tool_calls"


@EVERY
def test_a_picture_arrives(client, dialect):
    said = [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, IMAGE]}]
    answer = ask(client, False, model=f"{dialect}-well/katan", messages=said)
    assert "What is this?" in answer.choices[0].message.content
    assert "[image:" in answer.choices[0].message.content


@pytest.mark.parametrize("dialect", ["openai", "azure"])
def test_json(client, dialect):
    answer = ask(client, False, model=f"{dialect}-well/katan", messages=HELLO, response_format={"type": "json_object"})
    assert answer.choices[0].message.content.startswith('{"response": "[echo] model=katan')


@STREAMED
@pytest.mark.parametrize(
    ("trouble", "raised", "code"),
    [
        ("failing", openai.InternalServerError, "upstream_error"),
        ("limited", openai.RateLimitError, "upstream_rate_limited"),
        ("timed-out", openai.InternalServerError, "upstream_timeout"),
        ("full", openai.InternalServerError, "upstream_overloaded"),
        ("stranger", openai.InternalServerError, "upstream_auth_error"),
        ("late", openai.InternalServerError, "upstream_timeout"),
    ],
)
@EVERY
def test_trouble(client, dialect, trouble, raised, code, streamed):
    with pytest.raises(raised) as caught:
        client.chat.completions.create(model=f"{dialect}-{trouble}/katan", messages=HELLO, stream=streamed)
    assert caught.value.code == code
    assert "llm-katan" not in str(caught.value), "a key of the provider's"


@pytest.mark.parametrize("dialect", READABLE)
def test_another_provider_stands_in(client, dialect):
    other = "anthropic" if dialect == "openai" else "openai"
    for trouble in ("failing", "limited", "full"):
        answer = client.chat.completions.create(
            model=f"{dialect}-{trouble}/katan",
            messages=HELLO,
            extra_body={"routing": {"fallback": [f"{other}-well/katan"]}},
        )
        assert answer.model_extra["gateway"]["fallback_used"] is True
        assert answer.model_extra["gateway"]["model_used"] == f"{other}-well/katan"
        assert answer.choices[0].message.content.startswith("[echo]")


@pytest.mark.parametrize("dialect", READABLE)
def test_a_slow_stream_arrives_as_it_is_said(client, dialect):
    begun = time.monotonic()
    times = []
    for chunk in client.chat.completions.create(model=f"{dialect}-slow/katan", messages=HELLO, stream=True):
        if chunk.choices and chunk.choices[0].delta.content:
            times.append(time.monotonic() - begun)
    assert times[0] >= 0.1 and len(times) > 20
    # These two dialects wait 20 ms before each of some 30 pieces, so the last one comes much later than the first.
    assert dialect not in ("openai", "azure") or times[-1] - times[0] >= 0.05
