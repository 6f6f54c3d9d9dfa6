"""A running gateway, with llama.cpp's own server and the demo provider behind it, for every client test."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
KEY = "sk-client-test-key"
LIMITED = "sk-client-test-limited"

CONFIG = """
[server]
listen = "127.0.0.1:0"
data_dir = "{data}"

[timeouts]
first_token_ms = 20000
idle_ms = 20000

# Many tests fail on purpose at the same models of one gateway: what they say of an attempt must not depend on their order.
[routing.breaker]
failures = 10000

[[providers]]
name = "demo"
api = "demo"

[[providers]]
name = "tiny"
api = "openai"
base_url = "{tiny}/v1"

[[providers]]
name = "minilm"
api = "openai"
base_url = "{minilm}/v1"

[[models]]
id = "tiny/chat"
upstream_model = "tiny"
category = ["chat"]
context_length = 512
pricing = {{ official_input_per_m = 0.15, official_output_per_m = 0.60, cached_input_per_m = 0.075, currency = "USD" }}

[[models]]
id = "tiny/models/with/slashes"
upstream_model = "tiny"

[[models]]
id = "minilm/embed"
upstream_model = "minilm"
category = ["embedding"]
pricing = {{ official_input_per_m = 0.02, official_output_per_m = 0.0, currency = "USD" }}

[aliases]
"gpt-4o-mini" = "demo/chat"

[[keys]]
name = "clients"
key = "{key}"

[[keys]]
name = "limited"
key = "{limited}"
models = ["demo/*"]
rpm = 2
"""


class Running:
    """A child process that says `listening on URL` when it is ready."""

    def __init__(self, command, **options):
        self.lines = []
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **options
        )
        self.url = None
        watchdog = threading.Timer(60, self.process.kill)
        watchdog.start()
        for line in self.process.stdout:
            self.lines.append(line)
            found = re.search(r"listening on (http://[\d.]+:\d+)(?![\d.])", line)
            if found:
                self.url = found.group(1)
                break
        watchdog.cancel()
        assert self.url, "it did not start:\n" + "".join(self.lines)
        # Its later output must be read, or it would block on a full pipe.
        threading.Thread(target=lambda: self.lines.extend(self.process.stdout), daemon=True).start()

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


def _llama(kind, folder):
    return Running([sys.executable, str(HERE / "llama_server.py"), kind, str(folder)])


@pytest.fixture(scope="session")
def llama(tmp_path_factory):
    server = _llama("tiny", tmp_path_factory.mktemp("tiny"))
    yield server.url
    server.stop()


@pytest.fixture(scope="session")
def minilm(tmp_path_factory):
    server = _llama("minilm", tmp_path_factory.mktemp("minilm"))
    yield server.url
    server.stop()


@pytest.fixture(scope="session")
def gateway(tmp_path_factory, llama, minilm):
    folder = tmp_path_factory.mktemp("gateway")
    config = folder / "gateway.toml"
    config.write_text(
        CONFIG.format(data=folder / "data", tiny=llama, minilm=minilm, key=KEY, limited=LIMITED), encoding="utf-8"
    )
    binary = os.environ.get("MODEL_GATEWAY_BIN", str(ROOT / "target/debug/model-gateway"))
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    running = Running([binary, "serve", "--config", str(config)], env=environment, cwd=folder)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def base_url(gateway):
    return gateway.url + "/v1"


@pytest.fixture(scope="session")
def key():
    return KEY


@pytest.fixture(scope="session")
def limited_key():
    return LIMITED
