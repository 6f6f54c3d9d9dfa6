"""A running gateway, with llama.cpp's own server and the demo provider behind it, for every client test."""

import sys

import pytest
from openai import OpenAI
from processes import HERE, running, running_gateway
from upstreams import SERVER, upstream

KEY = "sk-client-test-key"
LIMITED = "sk-client-test-limited"

CONFIG = """
# Many tests fail on purpose at the same models of one gateway. Their order must not change what an attempt reports.
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

[[providers]]
name = "reranker"
api = "openai"
base_url = "{reranker}/v1"

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

[[models]]
id = "reranker/rerank"
upstream_model = "reranker"
category = ["rerank"]
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


def llama_server(kind, folder):
    return running([sys.executable, str(HERE / "llama_server.py"), kind, str(folder)])


@pytest.fixture(scope="session")
def llama(tmp_path_factory):
    with llama_server("tiny", tmp_path_factory.mktemp("tiny")) as process:
        yield process.url


@pytest.fixture(scope="session")
def minilm(tmp_path_factory):
    with llama_server("minilm", tmp_path_factory.mktemp("minilm")) as process:
        yield process.url


@pytest.fixture(scope="session")
def reranker(tmp_path_factory):
    with llama_server("reranker", tmp_path_factory.mktemp("reranker")) as process:
        yield process.url


@pytest.fixture(scope="session")
def gateway(tmp_path_factory, llama, minilm, reranker):
    config = SERVER + CONFIG.format(tiny=llama, minilm=minilm, reranker=reranker, key=KEY, limited=LIMITED)
    with running_gateway(tmp_path_factory.mktemp("gateway"), config) as process:
        yield process


@pytest.fixture(scope="session")
def base_url(gateway):
    return gateway.url + "/v1"


@pytest.fixture(scope="session")
def key():
    return KEY


@pytest.fixture(scope="session")
def limited_key():
    return LIMITED


@pytest.fixture(scope="module")
def client(base_url, key):
    """OpenAI's client, which checks every answer against its types. A module with a gateway of its own replaces it."""
    return OpenAI(base_url=base_url, api_key=key, max_retries=0, _strict_response_validation=True)


@pytest.fixture(scope="module")
def lenient(base_url, key):
    """OpenAI sends members that the SDK's types leave out: base64 vectors, `finish_reason: null` in a text stream."""
    return OpenAI(base_url=base_url, api_key=key, max_retries=0)


@pytest.fixture(scope="module")
def server():
    """An upstream whose answers the tests of a module write."""
    with upstream() as process:
        yield process


@pytest.fixture
def no_faults(server):
    """A failed check of a request at the upstream fails the test with its own words."""
    server.faults.clear()
    yield
    server.check()
