"""Pictures that a model makes, as a user of OpenAI's SDK gets them: out of an upstream that speaks Gemini's dialect."""

import base64
import json

import pytest
from upstreams import KEY, STREAMED, Answer, ask, gateway, history, stream

HELLO = [{"role": "user", "content": "A cat"}]

CONFIG = """
[[providers]]
name = "gem"
api = "gemini"
base_url = "{url}"
api_key = "{key}"

[[models]]
id = "gem/painter"
upstream_model = "gemini-2.5-flash-image"
pricing = {{ official_input_per_m = 0.3, official_output_per_m = 30.0, currency = "USD" }}
"""


@pytest.fixture(scope="module")
def client(server, tmp_path_factory):
    with gateway(tmp_path_factory.mktemp("images"), CONFIG.format(url=server.url, key=KEY)) as client:
        yield client


def picture(size):
    return b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * (size // 256)


def said(picture):
    parts = [{"text": "A cat:"}]
    data = base64.b64encode(picture).decode()
    parts.append({"inlineData": {"mimeType": "image/png", "data": data}, "thoughtSignature": "c2ln"})
    return {
        "candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 2, "candidatesTokenCount": 1292, "totalTokenCount": 1294},
    }


def answer(picture):
    def say(request):
        if "streamGenerateContent" not in request.path:
            return Answer(said(picture))
        return stream([b"data: " + json.dumps(said(picture)).encode() + b"\r\n\r\n"], "text/event-stream")

    return say


@STREAMED
@pytest.mark.parametrize("size", [3_000_000, 12_000_000], ids=["3MB", "12MB"])
def test_a_picture_comes_back_and_goes_home(server, client, streamed, size):
    made = picture(size)
    server.reset(answer(made))
    completion = ask(client, streamed, model="gem/painter", messages=HELLO)
    message = completion.choices[0].message
    assert message.content == "A cat:" and completion.choices[0].finish_reason == "stop"
    [image] = message.model_extra["images"]
    assert image["type"] == "image_url"
    kind, data = image["image_url"]["url"].split(",", 1)
    assert kind == "data:image/png;base64" and base64.b64decode(data) == made
    assert completion.usage.completion_tokens == 1292

    server.reset(answer(b"small"))
    again = [*HELLO, history(message), {"role": "user", "content": "Now blue"}]
    next_one = ask(client, streamed, model="gem/painter", messages=again)
    assert streamed or next_one.gateway["warnings"] == []
    model = server.last.json["contents"][1]
    assert model["role"] == "model" and model["parts"][0] == {"text": "A cat:"}
    [sent] = [part for part in model["parts"] if "inlineData" in part]
    assert sent["thoughtSignature"] == "c2ln"
    assert base64.b64decode(sent["inlineData"]["data"]) == made
