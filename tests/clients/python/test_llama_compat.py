"""llama.cpp's own compatibility cases for the Responses and the Messages API, rebuilt under their names, with the gateway in
front of llama.cpp's server. `../llama-compatibility.md` lists them with the result here.

Source of the names and the cases: ggml-org/llama.cpp, tools/server/tests/unit/test_compat_oai_responses.py and
test_compat_anthropic.py, read in November 2026.
"""

import json
import re
from pathlib import Path

import httpx
import pytest
from openai import OpenAI
from processes import running_gateway
from upstreams import SERVER

KEY = "sk-client-test-key"
MODEL = "llamacpp/tiny"
CONFIG = """
[[providers]]
name = "llamacpp"
api = "openai"
base_url = "{llama}/v1"

[[models]]
id = "llamacpp/tiny"
category = ["chat"]
context_length = 512
modalities = {{ input = ["text"], output = ["text"] }}
features = ["streaming", "function_calling", "json_mode", "json_schema"]

[[keys]]
name = "clients"
key = "{key}"
"""
LIST = Path(__file__).parent.parent / "llama-compatibility.md"
TOOL = {
    "name": "get_weather",
    "description": "Tells the weather.",
    "input_schema": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
}
RED_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)


@pytest.fixture(scope="module")
def base_url(tmp_path_factory, llama):
    config = SERVER + CONFIG.format(llama=llama, key=KEY)
    with running_gateway(tmp_path_factory.mktemp("llamacpp"), config) as process:
        yield process.url + "/v1"


@pytest.fixture(scope="module")
def post(base_url):
    def send(path, body, status=200):
        headers = {"authorization": f"Bearer {KEY}"}
        answer = httpx.post(base_url + path, headers=headers, json={"model": MODEL, **body}, timeout=60)
        assert answer.status_code == status, answer.text
        return answer.json()

    return send


@pytest.fixture(scope="module")
def stream(base_url):
    def send(path, body):
        headers = {"authorization": f"Bearer {KEY}"}
        body = {"model": MODEL, "stream": True, **body}
        with httpx.stream("POST", base_url + path, headers=headers, json=body, timeout=60) as answer:
            lines = list(answer.iter_lines())
            assert answer.status_code == 200, lines
        data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        return [json.loads(text) for text in data if text != "[DONE]"]

    return send


@pytest.fixture(scope="module")
def messages(post):
    def send(content="Hello", **more):
        history = content if isinstance(content, list) else [{"role": "user", "content": content}]
        message = post("/messages", {"max_tokens": 16, "messages": history, **more})
        assert (message["type"], message["role"]) == ("message", "assistant")
        return message

    return send


def words(message):
    assert [block["type"] for block in message["content"]] == ["text"]
    assert message["content"][0]["text"]
    return message["content"][0]["text"]


# The Responses API.


def format_of(kind, **more):
    return {"input": "Write an example", "max_output_tokens": 32, "text": {"format": {"type": kind, **more}}}


def output_text(response):
    return next(item for item in response["output"] if item["type"] == "message")["content"][0]["text"]


def test_responses_with_text_format(post):
    constant = format_of("json_schema", name="test", schema={"const": "foooooo"})
    assert output_text(post("/responses", constant)) == '"foooooo"'
    assert output_text(post("/responses", format_of("json_object"))).lstrip().startswith("{")
    assert output_text(post("/responses", format_of("text")))
    assert post("/responses", format_of("json_schema", name="test"), 400)["error"]["param"]


BOOK = [{"role": "system", "content": "Book"}, {"role": "user", "content": "What is the best book"}]


def test_responses_with_openai_library(base_url):
    client = OpenAI(base_url=base_url, api_key=KEY, max_retries=0)
    response = client.responses.create(model=MODEL, input=BOOK, max_output_tokens=16, temperature=0.8)
    assert response.id.startswith("resp_")
    assert response.output[0].id.startswith("msg_")
    assert response.output_text


def test_responses_stream_with_openai_library(base_url):
    client = OpenAI(base_url=base_url, api_key=KEY, max_retries=0)
    events = client.responses.create(model=MODEL, input=BOOK, max_output_tokens=16, temperature=0.8, stream=True)
    text, response_id, item_id = "", None, None
    for event in events:
        if event.type == "response.created":
            response_id = event.response.id
            assert response_id.startswith("resp_")
        elif event.type == "response.in_progress":
            assert event.response.id == response_id
        elif event.type == "response.output_item.added":
            item_id = event.item.id
            assert item_id.startswith("msg_")
        elif event.type == "response.output_item.done":
            assert event.item.id == item_id
        elif re.match(r"response\.(content_part|output_text)\.", event.type):
            assert event.item_id == item_id
            text += event.delta if event.type == "response.output_text.delta" else ""
        elif event.type in ("response.completed", "response.incomplete"):
            assert event.response.id == response_id
            assert event.response.output[0].id == item_id
            assert event.response.output_text == text != ""
            break
    else:
        pytest.fail("no last event")


def test_responses_stream_with_llama_telemetry(stream):
    """llama.cpp's own members (`timings_per_token`, `return_progress`) do not reach it: the stream is as it is without them."""
    body = {"input": "This is a test" * 10, "max_output_tokens": 16, "timings_per_token": True, "return_progress": True}
    events = stream("/responses", body)
    assert events[-1]["type"] in ("response.completed", "response.incomplete")
    assert events[-1]["response"]["usage"]["output_tokens"] > 0
    assert not any("timings" in event or "prompt_progress" in event for event in events)


# The Messages API.


def test_anthropic_messages_basic(messages):
    message = messages("Say hello")
    assert words(message)
    assert message["stop_reason"] in ("end_turn", "max_tokens")
    usage = message["usage"]
    assert all(isinstance(usage[name], int) for name in ("input_tokens", "cache_read_input_tokens", "output_tokens"))
    assert usage["output_tokens"] > 0
    assert "timings" not in message


def test_anthropic_messages_with_system(messages):
    assert words(messages(system="You are a helpful assistant."))


def test_anthropic_messages_multipart_content(messages):
    parts = [{"type": "text", "text": "What is"}, {"type": "text", "text": " the answer?"}]
    assert words(messages([{"role": "user", "content": parts}]))


def test_anthropic_messages_conversation(messages):
    turns = [("user", "Hello"), ("assistant", "Hi there!"), ("user", "How are you?")]
    assert words(messages([{"role": role, "content": text} for role, text in turns]))


def test_anthropic_messages_streaming(stream):
    events = stream("/messages", {"max_tokens": 30, "messages": [{"role": "user", "content": "Say hello"}]})
    kinds = [event["type"] for event in events if event["type"] != "ping"]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(kinds[2:-3]) == {"content_block_delta"}
    start, delta = events[0]["message"], events[-2]
    assert (start["type"], start["role"], start["content"]) == ("message", "assistant", [])
    assert start["usage"]["input_tokens"] > 0
    for event in events:
        assert event.get("index", 0) == 0
        assert "timings" not in event
    assert delta["delta"]["stop_reason"] in ("end_turn", "max_tokens")
    assert delta["usage"]["output_tokens"] > 0


@pytest.fixture(scope="module")
def counted(base_url):
    def count(**body):
        path, headers = base_url + "/messages/count_tokens", {"authorization": f"Bearer {KEY}"}
        answer = httpx.post(path, headers=headers, json={"model": MODEL, **body})
        assert answer.headers["x-gateway-token-count"] == "upstream"
        assert list(answer.json()) == ["input_tokens"]
        assert answer.json()["input_tokens"] > 0
        return answer.json()["input_tokens"]

    return count


def test_anthropic_count_tokens(counted):
    assert counted(messages=[{"role": "user", "content": "Hello world"}])


def test_anthropic_count_tokens_with_system(counted):
    question = [{"role": "user", "content": "Hello"}]
    assert counted(system="You are a helpful assistant.", messages=question) > counted(messages=question)


def test_anthropic_count_tokens_no_max_tokens(counted):
    assert counted(messages=[{"role": "user", "content": "Hello"}])


def test_anthropic_tool_use_basic(messages):
    message = messages("What's the weather in Paris?", tools=[TOOL], tool_choice={"type": "any"}, max_tokens=200)
    calls = [block for block in message["content"] if block["type"] == "tool_use"]
    assert message["content"]
    # The model's noise need not end before the limit.
    if calls:
        assert (calls[0]["name"], message["stop_reason"]) == ("get_weather", "tool_use")
        assert calls[0]["id"] and isinstance(calls[0]["input"], dict)


def after_call(content):
    call = {"type": "tool_use", "id": "test123", "name": "get_weather", "input": {"location": "Paris"}}
    turns = [("user", "What's the weather?"), ("assistant", [call]), ("user", content)]
    return [{"role": role, "content": content} for role, content in turns]


def result(text, **more):
    return {"type": "tool_result", "tool_use_id": "test123", "content": text, **more}


def test_anthropic_tool_result(messages):
    assert words(messages(after_call([result("The weather is sunny, 25°C")])))


def test_anthropic_tool_result_with_text(messages):
    assert words(messages(after_call([{"type": "text", "text": "Here are the results:"}, result("Sunny, 25°C")])))


def test_anthropic_tool_result_error(messages):
    assert words(messages(after_call([result("City not found", is_error=True)])))


def tool_events(stream):
    question = [{"role": "user", "content": "Use the tool"}]
    return stream("/messages", {"max_tokens": 100, "tools": [TOOL], "messages": question})


def test_anthropic_tool_streaming(stream):
    events = tool_events(stream)
    assert (events[0]["type"], events[-1]["type"]) == ("message_start", "message_stop")
    blocks = [event["content_block"] for event in events if event["type"] == "content_block_start"]
    assert all(block["type"] in ("text", "tool_use") for block in blocks)
    assert all(block["name"] == "get_weather" for block in blocks if block["type"] == "tool_use")


def test_anthropic_streaming_content_block_indices(stream):
    events = tool_events(stream)
    starts = [event["index"] for event in events if event["type"] == "content_block_start"]
    stops = [event["index"] for event in events if event["type"] == "content_block_stop"]
    assert starts == stops == list(range(len(starts)))


def test_anthropic_vision_format_accepted(post):
    """llama.cpp answers 500, the gateway 400, because the catalogue says that the model takes no images."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": RED_PIXEL}}
    question = [{"role": "user", "content": [image, {"type": "text", "text": "What is this?"}]}]
    error = post("/messages", {"max_tokens": 16, "messages": question}, 400)["error"]
    assert error["type"] == "invalid_request_error"
    assert "image content is not supported" in error["message"]


def test_anthropic_stop_sequences(messages, post):
    """llama.cpp takes a blank sequence, Anthropic's API and the gateway do not."""
    assert messages("Count to 10", stop_sequences=["END"])["stop_reason"]
    question = [{"role": "user", "content": "Count to 10"}]
    blank = {"max_tokens": 16, "messages": question, "stop_sequences": ["\n", "END"]}
    assert post("/messages", blank, 400)["error"]["type"] == "invalid_request_error"


def test_anthropic_temperature(messages):
    assert words(messages(temperature=0.5))


def test_anthropic_top_p(messages):
    assert words(messages(top_p=0.9))


def test_anthropic_top_k(messages):
    message = messages(top_k=40)
    assert words(message)
    assert "parameter_dropped:top_k" in message["gateway"]["warnings"]


def test_anthropic_missing_messages(post):
    assert post("/messages", {"max_tokens": 50}, 400)["error"]["type"] == "invalid_request_error"


def test_anthropic_empty_messages(post):
    """llama.cpp answers, Anthropic's API and the gateway refuse an empty list."""
    assert post("/messages", {"max_tokens": 50, "messages": []}, 400)["error"]["type"] == "invalid_request_error"


def test_anthropic_thinking(messages, post):
    """llama.cpp takes any budget, Anthropic's API and the gateway at least 1024 tokens."""
    budget = {"type": "enabled", "budget_tokens": 50}
    question = [{"role": "user", "content": "What is 2+2?"}]
    refused = post("/messages", {"max_tokens": 100, "messages": question, "thinking": budget}, 400)
    assert refused["error"]["type"] == "invalid_request_error"
    assert words(messages(question, thinking={"type": "adaptive"}))


def test_anthropic_metadata(messages):
    assert words(messages(metadata={"user_id": "test_user_123"}))


def test_anthropic_vs_openai_different_response_format(messages, post):
    question = [{"role": "user", "content": "Hello"}]
    chat = post("/chat/completions", {"max_tokens": 16, "messages": question})
    message = messages(question)
    assert chat["object"] == "chat.completion" and chat["choices"]
    assert message["type"] == "message" and message["content"]
    assert chat["usage"]["prompt_tokens"] and chat["usage"]["completion_tokens"]
    assert message["usage"]["input_tokens"] + message["usage"]["cache_read_input_tokens"]
    assert message["usage"]["output_tokens"]


def test_the_list_names_every_case():
    listed = set(re.findall(r"^\| `(test_\w+)` \|.*\| (?:as there|differs) \|", LIST.read_text("utf-8"), re.MULTILINE))
    here = {name for name in globals() if name.startswith(("test_responses_", "test_anthropic_"))}
    assert listed == here
