"""Shared parts of the provider tests: an HTTP server whose answers a test writes, and a gateway before it."""

import contextlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from openai import OpenAI
from processes import running_gateway

KEY = "sk-upstream-test-key"
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
HELLO = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello there"}]


@dataclass
class Request:
    """A request as it arrived."""

    method: str
    path: str  # with the query, percent-encoding and all
    headers: list  # of (name, value)
    body: bytes

    def header(self, name):
        return next((value for key, value in self.headers if key.lower() == name), None)

    @property
    def json(self):
        return json.loads(self.body)


@dataclass
class Answer:
    """An answer: a body, or the pieces of a stream, each written separately."""

    body: object = b""
    status: int = 200
    headers: dict = field(default_factory=lambda: {"content-type": "application/json"})
    pieces: list = None
    breaks: bool = False  # the connection is cut where the body should end


def stream(pieces, kind, **more):
    return Answer(pieces=list(pieces), headers={"content-type": kind}, **more)


class Upstream:
    """A provider on the loopback. `answer` is an Answer, or a function from a Request to one."""

    def __init__(self):
        self.requests = []
        self.faults = []
        self.answer = Answer(status=500)
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def serve(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                request = Request(self.command, self.path, self.headers.items(), body)
                upstream.requests.append(request)
                try:
                    answer = upstream.answer(request) if callable(upstream.answer) else upstream.answer
                except Exception as fault:  # noqa: BLE001 - a failed check is the test's, whatever it is
                    upstream.faults.append(fault)
                    answer = Answer(status=500, body=repr(fault).encode())
                self.say(answer)

            def say(self, answer):
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                if answer.pieces is None:
                    body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                    self.send_header("content-length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                    return
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for piece in filter(None, answer.pieces):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    self.wfile.flush()
                if answer.breaks:
                    self.close_connection = True
                else:
                    self.wfile.write(b"0\r\n\r\n")

            do_GET = do_POST = serve

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                """A client that is gone is no fault of ours."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def reset(self, answer):
        self.requests.clear()
        self.faults.clear()
        self.answer = answer

    def check(self):
        """Raises what a check of a request raised."""
        for fault in self.faults:
            raise fault

    @property
    def last(self):
        self.check()
        return self.requests[-1]

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def upstream():
    server = Upstream()
    yield server
    server.stop()


SERVER = """
[server]
listen = "127.0.0.1:0"

[timeouts]
first_token_ms = 20000
idle_ms = 20000
"""
# A key for the gateways of `gateway`.
KEYS = f"""
[[keys]]
name = "upstreams"
key = "{KEY}"
"""


@contextlib.contextmanager
def gateway(folder, config, **environment):
    """The real gateway with these providers and models, and an OpenAI client that talks to it."""
    with running_gateway(folder, SERVER + KEYS + config, **environment) as process:
        client = OpenAI(
            base_url=process.url + "/v1", api_key=KEY, max_retries=0, timeout=60, _strict_response_validation=True
        )
        with client:
            yield client


def ask(client, streamed, **request):
    """A chat completion, plain or put together from its stream by the SDK: both must look the same."""
    if not streamed:
        return client.chat.completions.create(**request)
    with client.chat.completions.stream(**request, stream_options={"include_usage": True}) as events:
        completion = events.until_done().get_final_completion()
    assert completion.usage is not None
    return completion


def calls_of(message):
    """The tool calls of a message, as (name, arguments)."""
    return [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or []]


def reasoning_of(message):
    return (message.model_extra or {}).get("reasoning_content")


def history(message):
    """An answer as a client sends it back."""
    kept = message.model_dump(exclude_none=True, exclude={"parsed"})
    for call in kept.get("tool_calls", []):
        call["function"].pop("parsed_arguments", None)
        call.pop("index", None)
    return kept


def function(name, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": f"Calls {name}.", "parameters": schema}}


WEATHER = function("get_weather", city={"type": "string", "description": "Where"}, days={"type": "integer"})
TIME = function("get_time", zone={"type": "string", "enum": ["UTC", "CET"]})
# A red pixel.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PIXEL}}


def _call(number, name, arguments):
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


# Turns in an order that providers refuse, empty and missing contents, results that are not JSON.
UNTIDY = [
    {"role": "developer", "content": [{"type": "text", "text": "s-one"}]},
    {"role": "assistant", "content": "a-first"},
    {"role": "user", "content": "u-one"},
    {"role": "user", "content": [{"type": "text", "text": "u-two"}, {"type": "text", "text": "u-three"}], "name": "ann"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [_call("w", "get_weather", '{"city": "c-one", "days": 1}'), _call("x", "get_time", "")],
    },
    {"role": "tool", "tool_call_id": "call_w", "content": [{"type": "text", "text": "r-one"}]},
    {"role": "tool", "tool_call_id": "call_x", "content": "[1, 2"},
    {"role": "assistant", "content": None, "tool_calls": [_call("v", "get_weather", '{"city": "c-two", "days": 2}')]},
    {"role": "tool", "tool_call_id": "call_v", "content": ""},
    {"role": "assistant", "content": "a-two"},
    {"role": "assistant", "content": "a-three"},
    {"role": "user", "content": "   "},
    {"role": "user", "content": "u-four"},
]
SAID = "s-one a-first u-one u-two u-three c-one r-one c-two a-two a-three u-four".split()


def check_said(everything):
    """Checks that every text of the untidy conversation is present, in its order."""
    assert [word for word in [*SAID, "[1, 2"] if word not in everything] == []
    assert sorted(SAID, key=everything.index) == SAID
