"""LangChain's OpenAI package: always sends arrays, nulls and fields of its own."""

import asyncio

import anthropic
import openai
import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from pydantic import BaseModel


class City(BaseModel):
    """A city."""

    name: str
    people: int


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return "sunny in " + city


@pytest.fixture(scope="module")
def chat(base_url, key):
    return ChatOpenAI(base_url=base_url, api_key=key, model="demo/chat", max_retries=0)


def test_chat_and_stream(chat):
    whole = chat.invoke("Hello there")
    assert whole.content and whole.usage_metadata["total_tokens"] > 0
    pieces = list(chat.stream("Hello there", stream_usage=True))
    streamed = sum(pieces[1:], start=pieces[0])
    assert streamed.content == whole.content
    assert streamed.usage_metadata["total_tokens"] == whole.usage_metadata["total_tokens"]
    assert streamed.response_metadata["finish_reason"] == "stop"
    assert asyncio.run(chat.ainvoke("Hello there")).content == whole.content


def test_tools_and_structured_output(chat):
    message = chat.bind_tools([get_weather], tool_choice="get_weather").invoke("get weather in Paris")
    assert message.tool_calls[0]["name"] == "get_weather" and "city" in message.tool_calls[0]["args"]
    pieces = list(chat.bind_tools([get_weather]).stream("get weather in Paris"))
    assert sum(pieces[1:], start=pieces[0]).tool_calls == message.tool_calls
    assert isinstance(chat.with_structured_output(City, method="json_schema").invoke("A city"), City)
    assert isinstance(chat.with_structured_output(City, method="function_calling").invoke("A city"), City)


def test_text_completion(base_url, key):
    model = OpenAI(base_url=base_url, api_key=key, model="demo/chat", max_retries=0)
    assert model.invoke("Once upon a time")
    assert "".join(model.stream("Once upon a time"))


def test_embeddings(base_url, key):
    model = OpenAIEmbeddings(
        base_url=base_url, api_key=key, model="minilm/embed", check_embedding_ctx_length=False, max_retries=0
    )
    vectors = model.embed_documents(["one", "two", "three"])
    assert [len(vector) for vector in vectors] == [384] * 3
    assert len(model.embed_query("one")) == 384


def test_a_broken_stream_raises(base_url, key):
    broken = ChatOpenAI(base_url=base_url, api_key=key, model="demo/cut", max_retries=0)
    with pytest.raises(openai.APIError):
        list(broken.stream("Hello"))


@pytest.fixture(scope="module")
def responses(base_url, key):
    # LangChain shares its asynchronous connections between models of one address, but each test has its own event loop.
    return ChatOpenAI(
        base_url=base_url, api_key=key, model="demo/chat", max_retries=0, use_responses_api=True, timeout=60
    )


def test_chat_and_stream_over_responses(responses):
    whole = responses.invoke("Hello there")
    assert whole.text == "Demo answer to: Hello there"
    assert whole.response_metadata["id"].startswith("resp_")
    pieces = list(responses.stream("Hello there"))
    streamed = sum(pieces[1:], start=pieces[0])
    assert streamed.text == whole.text and len(pieces) > 5
    assert streamed.usage_metadata["total_tokens"] == whole.usage_metadata["total_tokens"]
    assert asyncio.run(responses.ainvoke("Hello there")).text == whole.text


def test_tools_and_structured_output_over_responses(responses):
    check_a_tool_loop(responses)
    assert isinstance(responses.with_structured_output(City, method="json_schema").invoke("A city"), City)


def check_a_tool_loop(model):
    """One call of a tool, plain and streamed, and the answer to its result."""
    bound = model.bind_tools([get_weather])
    turns = [HumanMessage("get weather in Paris")]
    message = bound.invoke(turns)
    (asked,) = message.tool_calls
    assert asked["name"] == "get_weather" and set(asked["args"]) == {"city"}
    pieces = list(bound.stream(turns))
    (streamed,) = sum(pieces[1:], start=pieces[0]).tool_calls
    assert (streamed["name"], streamed["args"]) == (asked["name"], asked["args"])
    last = bound.invoke([*turns, message, get_weather.invoke(asked)])
    assert last.text and not last.tool_calls


@pytest.fixture(scope="module")
def claude(gateway, key):
    return ChatAnthropic(base_url=gateway.url, api_key=key, model="demo/chat", max_tokens=500, max_retries=0)


def test_chat_and_stream_over_messages(claude):
    whole = claude.invoke("Hello there")
    assert whole.text == "Demo answer to: Hello there"
    assert whole.response_metadata["stop_reason"] == "end_turn"
    pieces = list(claude.stream("Hello there"))
    streamed = sum(pieces[1:], start=pieces[0])
    assert streamed.text == whole.text and len(pieces) > 5
    assert streamed.usage_metadata["output_tokens"] == whole.usage_metadata["output_tokens"]
    assert asyncio.run(claude.ainvoke("Hello there")).text == whole.text


def test_tools_and_structured_output_over_messages(claude):
    check_a_tool_loop(claude)
    assert isinstance(claude.with_structured_output(City).invoke("A city"), City)


def test_errors_over_messages(gateway, key):
    refused = ChatAnthropic(base_url=gateway.url, api_key=key, model="demo/error-503", max_retries=0)
    with pytest.raises(anthropic.APIStatusError) as caught:
        refused.invoke("Hello")
    assert caught.value.status_code == 529
