"""OpenAI's own Python SDK, as its users use it: the gateway must look like the service it was written for."""

import asyncio
import base64
import json
import time

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

HELLO = [{"role": "user", "content": "Hello there, how are you today?"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}


class City(BaseModel):
    name: str
    people: int


def test_chat(client):
    answer = client.chat.completions.create(model="demo/chat", messages=HELLO)
    assert answer.object == "chat.completion"
    assert answer.id.startswith("chatcmpl-")
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.cost_usd >= 0
    gateway = answer.gateway
    assert gateway["model_used"] == "demo/chat" and gateway["provider"] == "demo"
    assert gateway["cache_hit"] is False and gateway["fallback_used"] is False
    assert gateway["routing_strategy"] == "default"
    assert answer._request_id == gateway["request_id"]


def test_a_bare_name_and_an_alias(client):
    for name in ("chat", "gpt-4o-mini"):
        answer = client.chat.completions.create(model=name, messages=HELLO, max_tokens=5)
        assert answer.gateway["model_used"] == "demo/chat"


def test_streaming(client):
    chunks = list(client.chat.completions.create(model="demo/chat", messages=HELLO, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[0].choices[0].delta.content is None
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    whole = client.chat.completions.create(model="demo/chat", messages=HELLO)
    assert text == whole.choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert chunks[-1].gateway["model_used"] == "demo/chat"
    assert len({chunk.id for chunk in chunks}) == 1


def test_streaming_with_usage(client):
    options = {"include_usage": True}
    stream = client.chat.completions.create(model="demo/chat", messages=HELLO, stream=True, stream_options=options)
    chunks = list(stream)
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens > 0
    assert chunks[-1].usage.cost_usd >= 0


def test_the_stream_helper(client):
    with client.chat.completions.stream(model="demo/chat", messages=HELLO) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    assert final.choices[0].message.role == "assistant"
    assert final.choices[0].message.content


def test_several_choices(client):
    answer = client.chat.completions.create(model="demo/chat", messages=HELLO, n=3)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    with client.chat.completions.stream(model="demo/chat", messages=HELLO, n=3) as stream:
        final = stream.until_done().get_final_completion()
    assert [choice.message.role for choice in final.choices] == ["assistant"] * 3


def test_async(base_url, key):
    async def run():
        async with AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0) as client:
            answers = await asyncio.gather(
                *(client.chat.completions.create(model="demo/chat", messages=HELLO) for _ in range(8))
            )
            assert len({answer.id for answer in answers}) == 8
            text = ""
            async for chunk in await client.chat.completions.create(model="demo/chat", messages=HELLO, stream=True):
                text += chunk.choices[0].delta.content or ""
            assert text == answers[0].choices[0].message.content

    asyncio.run(run())


def test_with_raw_response(client):
    raw = client.chat.completions.with_raw_response.create(model="demo/chat", messages=HELLO)
    assert raw.status_code == 200
    assert raw.headers["content-type"].startswith("application/json")
    assert raw.headers["x-request-id"] == raw.parse().gateway["request_id"]
    assert int(raw.headers["openai-processing-ms"]) >= 0
    with client.chat.completions.with_streaming_response.create(model="demo/chat", messages=HELLO, stream=True) as raw:
        assert raw.headers["content-type"] == "text/event-stream; charset=utf-8"
        lines = [line for line in raw.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"


def test_a_whole_tool_conversation(client):
    messages = [{"role": "user", "content": "What is the weather in Paris?"}]
    choice = {"type": "function", "function": {"name": "get_weather"}}
    first = client.chat.completions.create(model="demo/chat", messages=messages, tools=[WEATHER], tool_choice=choice)
    call = first.choices[0].message.tool_calls[0]
    assert call.function.name == "get_weather" and call.id
    assert set(json.loads(call.function.arguments)) == {"city", "days"}
    messages += [
        first.choices[0].message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "sunny"},
    ]
    last = client.chat.completions.create(model="demo/chat", messages=messages, tools=[WEATHER])
    assert last.choices[0].message.content and not last.choices[0].message.tool_calls


def test_streamed_tool_calls(client):
    with client.chat.completions.stream(
        model="demo/chat", messages=HELLO, tools=[WEATHER], tool_choice="required"
    ) as stream:
        message = stream.until_done().get_final_completion().choices[0].message
    assert len(message.tool_calls) == 1
    assert set(json.loads(message.tool_calls[0].function.arguments)) == {"city", "days"}


def test_structured_output(client):
    parsed = client.chat.completions.parse(model="demo/chat", messages=HELLO, response_format=City)
    assert isinstance(parsed.choices[0].message.parsed, City)
    answer = client.chat.completions.create(
        model="demo/chat", messages=HELLO, response_format={"type": "json_object"}
    )
    assert isinstance(json.loads(answer.choices[0].message.content), dict)


def test_text_completion(client, lenient):
    answer = client.completions.create(model="demo/chat", prompt=["Once", "Twice"], n=2, max_tokens=4)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert answer.object == "text_completion" and answer.usage.cost_usd >= 0
    whole = client.completions.create(model="demo/chat", prompt="Once")
    chunks = list(lenient.completions.create(model="demo/chat", prompt="Once", stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
    assert all(chunk.object == "text_completion" for chunk in chunks)
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_embeddings_in_the_default_encoding(client, lenient):
    # The SDK asks for base64 unless told otherwise, and decodes it.
    default = lenient.embeddings.create(model="demo/embed", input=["one", "two"], dimensions=64)
    plain = client.embeddings.create(
        model="demo/embed", input=["one", "two"], dimensions=64, encoding_format="float"
    )
    assert [item.index for item in default.data] == [0, 1]
    for ours, theirs in zip(default.data, plain.data):
        assert len(ours.embedding) == 64
        assert ours.embedding == pytest.approx(theirs.embedding, rel=1e-6)


def test_images(client):
    made = client.images.generate(model="demo/images", prompt="a cat", n=2, size="512x256")
    assert len(made.data) == 2 and base64.b64decode(made.data[0].b64_json)[1:4] == b"PNG"
    assert made.usage.total_tokens == made.usage.input_tokens + made.usage.output_tokens
    events = list(client.images.generate(model="demo/images", prompt="a cat", stream=True, partial_images=1))
    assert [event.type for event in events] == ["image_generation.partial_image", "image_generation.completed"]
    assert events[1].usage.input_tokens_details.image_tokens == 0


def test_edits_and_variations_of_images(client):
    image = ("a.png", b"picture", "image/png")
    made = client.images.edit(model="demo/images", image=[image, image], mask=image, prompt="a cat", size="256x256")
    assert base64.b64decode(made.data[0].b64_json)[1:4] == b"PNG"
    events = list(client.images.edit(model="demo/images", image=image, prompt="a cat", stream=True, partial_images=1))
    assert [event.type for event in events] == ["image_edit.partial_image", "image_edit.completed"]
    varied = client.images.create_variation(model="demo/images", image=image, n=2, size="256x256")
    assert len(varied.data) == 2


def test_speech_and_transcripts(client):
    with client.audio.speech.with_streaming_response.create(model="demo/speech", input="Good morning.", voice="alloy", response_format="wav") as spoken:
        sound = b"".join(spoken.iter_bytes())
    assert sound[:4] == b"RIFF"
    seconds = (len(sound) - 44) / 16_000
    file = ("a.wav", sound, "audio/wav")
    heard = client.audio.transcriptions.create(model="demo/transcribe", file=file)
    assert heard.text == f"The demo heard {len(sound)} bytes." and heard.usage.type == "duration"
    assert heard.usage.seconds == pytest.approx(seconds)
    assert client.audio.transcriptions.create(model="demo/transcribe", file=file, response_format="text").strip() == heard.text
    verbose = client.audio.transcriptions.create(
        model="demo/transcribe", file=file, response_format="verbose_json", timestamp_granularities=["segment"]
    )
    assert verbose.segments[0].text == heard.text
    events = list(client.audio.transcriptions.create(model="demo/transcribe", file=file, stream=True))
    assert events[-1].type == "transcript.text.done" and events[-1].text == heard.text
    assert "".join(event.delta for event in events[:-1]) == heard.text
    assert client.audio.translations.create(model="demo/transcribe", file=file).text == heard.text


def test_the_catalogue(client):
    models = client.models.list()
    ids = [model.id for model in models]
    assert {"demo/chat", "tiny/chat", "tiny/models/with/slashes", "minilm/embed"} <= set(ids)
    for name in ("demo/chat", "tiny/models/with/slashes"):
        model = client.models.retrieve(name)
        assert model.id == name and model.owned_by == name.split("/")[0]
    assert client.models.retrieve("tiny/chat").pricing["gateway_input_per_m"] == 0.15
    compared = client.get("/models/compare", cast_to=object, options={"params": {"models": "tiny/chat,demo/chat"}})
    assert compared["models"] == ["tiny/chat", "demo/chat"] == list(compared["comparison"])
    assert compared["highlights"]["cheapest"] in compared["models"]


def status_of(client, **request):
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(**{"model": "demo/chat", "messages": HELLO, **request})
    return caught.value


@pytest.mark.parametrize(
    ("request_", "kind", "code"),
    [
        ({"temperature": 3}, openai.BadRequestError, "decimal_above_max_value"),
        ({"messages": []}, openai.BadRequestError, "empty_array"),
        ({"model": "no/such-model"}, openai.NotFoundError, "model_not_found"),
        ({"model": "demo/error-400"}, openai.BadRequestError, None),
        ({"model": "demo/error-429"}, openai.RateLimitError, "upstream_rate_limited"),
        ({"model": "demo/error-500"}, openai.InternalServerError, "upstream_error"),
        ({"model": "demo/error-503"}, openai.InternalServerError, "upstream_overloaded"),
        ({"model": "demo/error-401"}, openai.InternalServerError, "upstream_auth_error"),
        ({"model": "demo/panic"}, openai.InternalServerError, "internal_error"),
    ],
)
def test_error_classes(client, request_, kind, code):
    error = status_of(client, **request_)
    assert type(error) is kind
    assert error.request_id.startswith("req_")
    if code:
        assert error.code == code


def test_key_errors(base_url, limited_key):
    with pytest.raises(openai.AuthenticationError) as caught:
        OpenAI(base_url=base_url, api_key="wrong").models.list()
    assert caught.value.code == "invalid_api_key"
    limited = OpenAI(base_url=base_url, api_key=limited_key, max_retries=0)
    with pytest.raises(openai.PermissionDeniedError) as caught:
        limited.chat.completions.create(model="tiny/chat", messages=HELLO)
    assert caught.value.code == "model_not_allowed"
    with pytest.raises(openai.RateLimitError) as caught:
        for _ in range(3):
            limited.chat.completions.create(model="demo/chat", messages=HELLO)
    assert caught.value.code == "rate_limit_exceeded"
    assert 1 <= int(caught.value.response.headers["retry-after"]) <= 120
    assert all("/" not in model.id or model.id.startswith("demo/") for model in limited.models.list())


def test_errors_of_other_endpoints(client):
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("no/such/model")
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError) as caught:
        client.fine_tuning.jobs.list()
    assert caught.value.code == "unknown_url"
    with pytest.raises(openai.APIStatusError) as caught:
        client.models.delete("demo/chat")
    assert caught.value.status_code == 405 and caught.value.code == "method_not_allowed"
    with pytest.raises(openai.BadRequestError) as caught:
        client.embeddings.create(model="demo/embed", input="")
    assert caught.value.code == "empty_string"
    with pytest.raises(openai.BadRequestError) as caught:
        client.embeddings.create(model="demo/chat", input="Hello")
    assert caught.value.code == "unsupported_model"


def test_a_client_that_gives_up(client):
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.3).chat.completions.create(model="demo/silent", messages=HELLO)
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(model="demo/chat", messages=HELLO, response_format=City, max_tokens=1)


def test_retries_obey_our_headers(base_url, key):
    # x-should-retry: false stops the SDK at once; a 502 with true is tried again; retry-after is waited for.
    client = OpenAI(base_url=base_url, api_key=key, max_retries=2)
    error = status_of(client, model="demo/error-401")
    assert error.response.headers["x-should-retry"] == "false"
    assert error.response.request.headers["x-stainless-retry-count"] == "0"
    error = status_of(client, model="demo/error-500")
    assert error.response.headers["x-should-retry"] == "true"
    assert error.response.request.headers["x-stainless-retry-count"] == "2"
    started = time.monotonic()
    error = status_of(client.with_options(max_retries=1), model="demo/error-429")
    assert error.response.request.headers["x-stainless-retry-count"] == "1"
    assert time.monotonic() - started >= float(error.response.headers["retry-after"])


@pytest.mark.parametrize("model", ["demo/cut", "demo/truncate", "demo/error-mid"])
def test_a_broken_stream_never_looks_complete(client, model):
    with pytest.raises(openai.APIError):
        for chunk in client.chat.completions.create(model=model, messages=HELLO, stream=True):
            assert chunk.choices[0].finish_reason is None


def test_fallback(client):
    answer = client.chat.completions.create(
        model="demo/error-500", messages=HELLO, extra_body={"routing": {"fallback": ["demo/chat"]}}
    )
    assert answer.gateway["fallback_used"] is True and answer.gateway["model_used"] == "demo/chat"
    assert [attempt["status"] for attempt in answer.gateway["attempts"]] == ["upstream_error", "ok"]
    stream = client.chat.completions.create(
        model="demo/error-first", messages=HELLO, stream=True, extra_body={"routing": {"fallback": ["demo/chat"]}}
    )
    assert list(stream)[-1].gateway["fallback_used"] is True
