"""`model-gateway probe` against servers that nobody here wrote: llama.cpp's own server, and LiteLLM's proxy in front of it.

The model of llama.cpp writes noise, so checks that need an obedient model prove nothing here. The other failed checks are
the real faults of these servers, in the versions of the requirements.
"""

import json
import os
import subprocess

import pytest
from processes import HERE, ROOT, running

PROXY_KEY = "sk-litellm-test-key"
PYTHON = os.environ.get("LITELLM_PYTHON", str(ROOT / ".testenv/litellm/bin/python"))
BINARY = os.environ.get("MODEL_GATEWAY_BIN", str(ROOT / "target/debug/model-gateway"))


@pytest.fixture(scope="module")
def litellm(llama, tmp_path_factory):
    folder = tmp_path_factory.mktemp("litellm")
    environment = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    command = [PYTHON, str(HERE / "litellm_proxy.py"), llama, PROXY_KEY, str(folder)]
    with running(command, env={**environment, "HOME": str(folder)}, cwd=folder) as proxy:
        yield proxy.url


def probe(folder, *arguments):
    """The checks by their result, and the entries of all checks."""
    done = subprocess.run(
        [BINARY, "probe", *arguments, "--yes", "--json"],
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PROBED_KEY": PROXY_KEY},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode in (0, 1), done.stderr
    assert PROXY_KEY not in done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert done.returncode == (0 if report["conforms"] else 1)
    results = {}
    for entry in report["checks"]:
        results.setdefault(entry["result"], set()).add(entry["check"])
    return results, {entry["check"]: entry for entry in report["checks"]}


STREAM = {f"stream.{name}" for name in ("answer", "content_type", "framing", "done", "ids", "finish_reason", "usage")}
# `cancel` is missing: on a busy machine the short stream of this model arrives in one piece, and nothing is left to cancel.
ANSWERS = {"chat.answer", "chat.usage", "json.schema"}
# The noise of the model decides these checks.
OBEDIENCE = {"stop", "system", "json.mode", "max_tokens", "tools.forced", "tools.required", "tools.auto", "tools.result"}
SETTINGS = ["--max-tokens", "96", "--with", '{"temperature": 0, "seed": 1}']


def test_llama_cpp(llama, tmp_path):
    results, checks = probe(tmp_path, "box", "tiny", "--base-url", llama + "/v1", *SETTINGS)
    assert results["passed"] >= STREAM | ANSWERS | {"choices", "native.responses", "native.messages", "list.context"}
    # llama.cpp refuses an image with status 500.
    assert results["failed"] - OBEDIENCE == {"images"}
    assert "image input is not supported" in checks["images"]["seen"]
    assert checks["errors.oversize"]["measured"].startswith("status 400")
    # One model answers under every name.
    assert checks["errors.model"]["result"] == "not_offered"


def test_the_embeddings_of_llama_cpp(minilm, tmp_path):
    results, checks = probe(tmp_path, "box", "minilm", "--base-url", minilm + "/v1", "--embeddings")
    assert results["passed"] >= {"embeddings.answer", "embeddings.order", "embeddings.usage", "embeddings.base64"}
    assert results["failed"] == {"embeddings.dimensions"}
    assert checks["embeddings.dimensions"]["seen"] == "384 numbers"


def test_litellm(litellm, tmp_path):
    address = ["--base-url", litellm + "/v1", "--key-env", "PROBED_KEY", *SETTINGS]
    results, checks = probe(tmp_path, "proxy", "claude-sonnet-4-5", *address)
    assert results["passed"] >= STREAM | ANSWERS | {"errors.model", "errors.key", "errors.parameter", "errors.echo"}
    assert results["failed"] - OBEDIENCE == {"images"}
    assert checks["errors.key"]["measured"] == "status 401"


def test_litellm_in_anthropics_dialect(litellm, tmp_path):
    address = ["--base-url", litellm, "--api", "anthropic", "--key-env", "PROBED_KEY", *SETTINGS]
    results, checks = probe(tmp_path, "proxy", "claude-sonnet-4-5", *address)
    assert results["passed"] >= {"chat.answer", "chat.usage", "stream.answer", "stream.usage"}
    # LiteLLM answers a wrong list of messages with status 500.
    assert checks["errors.parameter"] == {
        "check": "errors.parameter",
        "result": "failed",
        "expected": "status 400 or 422",
        "seen": "status 500",
    }
