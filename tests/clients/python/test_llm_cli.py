"""The `llm` command line, with the gateway as an extra OpenAI model."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def llm(tmp_path, base_url, key):
    lines = []
    for name, extra in (("gateway", ""), ("gateway-text", "  completion: true\n")):
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
