"""The `llm` command line, with the gateway as an extra OpenAI model."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def llm(tmp_path, base_url, key):
    lines = []
    extras = {"gateway": "  supports_schema: true\n  supports_tools: true\n", "gateway-text": "  completion: true\n"}
    for name, extra in extras.items():
        lines.append(
            f"- model_id: {name}\n  model_name: demo/chat\n  api_base: {base_url}\n  api_key_name: gateway\n{extra}"
        )
    (tmp_path / "extra-openai-models.yaml").write_text("".join(lines))
    (tmp_path / "keys.json").write_text(f'{{"gateway": "{key}"}}')
    program = Path(sys.executable).parent / "llm"

    def run(*arguments):
        done = subprocess.run(
            [program, *arguments],
            env={**os.environ, "LLM_USER_PATH": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


def test_prompt_streamed_and_plain(llm):
    streamed = llm("-m", "gateway", "Hello there")
    assert streamed and streamed == llm("-m", "gateway", "--no-stream", "Hello there")


def test_text_completion(llm):
    assert llm("-m", "gateway-text", "Once upon a time")


def test_a_schema_and_a_tool(llm):
    answer = json.loads(llm("-m", "gateway", "--schema", "name, people int", "A city"))
    assert isinstance(answer["name"], str) and isinstance(answer["people"], int)
    function = 'def weather(city: str) -> str:\n    "The weather of a city"\n    return "sunny in " + city'
    assert "sunny in" in llm("-m", "gateway", "--functions", function, "weather in Paris")
