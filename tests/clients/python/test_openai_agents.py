"""OpenAI's Agents SDK on the Responses API: tools and a handoff between two agents."""

import asyncio
import json

import pytest
from agents import Agent, OpenAIResponsesModel, RunConfig, Runner, function_tool
from openai import AsyncOpenAI
from test_anthropic import call, said
from test_responses import KEY, STREAMED, scripted, url  # noqa: F401 - the fixtures of a gateway before an upstream

# Tracing would send every run to OpenAI.
QUIET = RunConfig(tracing_disabled=True)


@function_tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return "sunny in " + city


@pytest.fixture
def model(url):  # noqa: F811
    """A model for one event loop: the SDK's connections belong to the loop of a run."""
    return OpenAIResponsesModel("chatty/plain", AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0))


def turns(*answers):
    """An upstream that gives one answer after the other."""
    left = iter([said(*answer) for answer in answers])
    return lambda request: next(left)(request)


def run(agent, streamed, words):
    if not streamed:
        return Runner.run_sync(agent, words, run_config=QUIET)

    async def streaming():
        result = Runner.run_streamed(agent, words, run_config=QUIET)
        async for _ in result.stream_events():
            pass
        return result

    return asyncio.run(streaming())


@STREAMED
def test_tools_and_a_handoff(model, scripted, streamed):  # noqa: F811
    scripted.reset(
        turns(
            ({"content": None, "tool_calls": [call("h", "transfer_to_forecaster", {})]}, "tool_calls"),
            (
                {
                    "content": None,
                    "tool_calls": [
                        call("a", "get_weather", {"city": "Oslo"}),
                        call("b", "get_weather", {"city": "Rome"}),
                    ],
                },
                "tool_calls",
            ),
            ({"content": "Sunny in both."}, "stop"),
        )
    )
    forecaster = Agent(name="Forecaster", instructions="Tell the weather.", tools=[get_weather], model=model)
    desk = Agent(name="Desk", instructions="Hand over.", handoffs=[forecaster], model=model)
    result = run(desk, streamed, "What is the weather in Oslo and Rome?")
    assert result.final_output == "Sunny in both."
    assert result.last_agent.name == "Forecaster"
    scripted.check()
    first, second, third = [request.json for request in scripted.requests]
    assert [tool["function"]["name"] for tool in first["tools"]] == ["transfer_to_forecaster"]
    assert [tool["function"]["name"] for tool in second["tools"]] == ["get_weather"]
    assert second["messages"][0]["content"] == "Tell the weather."
    results = {turn["tool_call_id"]: turn["content"] for turn in third["messages"] if turn["role"] == "tool"}
    assert results["call_a"] == "sunny in Oslo" and results["call_b"] == "sunny in Rome"
    assert json.loads(results["call_h"]) == {"assistant": "Forecaster"}
