"""Clients that hold connections or spend frames: others are served as before, and memory stays bounded.

HOSTILE_SECONDS: how long each of them goes on, 3 unless said otherwise. HOSTILE_CONNECTIONS: how many slow connections
slowhttptest opens, 500 unless said otherwise.
"""

import http.client
import json
import os
import re
import select
import shutil
import socket
import subprocess
import threading
import time
from urllib.parse import urlsplit

import hpack
import pytest
from hyperframe import frame
from measured import at_most
from processes import running_gateway

KEY = "sk-hostile-test-key"
SECONDS = float(os.environ.get("HOSTILE_SECONDS", "3"))
CONNECTIONS = int(os.environ.get("HOSTILE_CONNECTIONS", "500"))
# An open connection needs some 10 KiB.
MEMORY_KIB = max(32 << 10, 16 * CONNECTIONS)
# Attacker, gateway and client share the machine.
SHARED_MACHINE_MS = 50
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

CONFIG = f"""
[server]
listen = "127.0.0.1:0"
# Longer than a good client may stand still between two of its steps on a busy machine.
head_timeout_ms = 8000
body_timeout_ms = 8000

[[providers]]
name = "demo"
api = "demo"

[[keys]]
name = "hostile"
key = "{KEY}"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running_gateway(tmp_path_factory.mktemp("hostile"), CONFIG) as process:
        # The first requests allocate the memory that all later ones use.
        for _ in range(20):
            assert ask(process.url) == 200
        process.alone_ms = p99_ms([timed(process.url)[1] for _ in range(200)])
        yield process


def ask(url):
    """A request of a client that means well, on a connection of its own."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=20)
    try:
        body = json.dumps({"model": "demo/chat", "messages": [{"role": "user", "content": "Hello"}]})
        headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
        connection.request("POST", "/v1/chat/completions", body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def timed(url):
    """The status of a good client's request, or its error, and its milliseconds."""
    start = time.monotonic()
    try:
        status = ask(url)
    except OSError as error:
        status = repr(error)
    return status, (time.monotonic() - start) * 1000


def p99_ms(times):
    return sorted(times)[len(times) * 99 // 100]


def memory_kib(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


class GoodClient:
    """Asks again and again beside an attack; every answer must be a 200."""

    def __init__(self, server):
        self.server = server
        self.answers = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.stop.is_set():
            self.answers.append(timed(self.server.url))
            self.stop.wait(0.02)

    def __enter__(self):
        self.before = memory_kib(self.server)
        self.most = self.before
        self.thread.start()
        return self

    def __exit__(self, kind, value, trace):
        self.most = max(self.most, memory_kib(self.server))
        self.stop.set()
        self.thread.join(30)
        if kind is None:
            others = [status for status, _ in self.answers if status != 200]
            assert self.answers and not others, f"{len(others)} of {len(self.answers)}: {others[:5]}"
            bound_ms = 2 * self.server.alone_ms + SHARED_MACHINE_MS
            at_most("ms, p99 of a good client beside hostile ones", p99_ms([ms for _, ms in self.answers]), bound_ms)
            at_most("KiB of hostile clients", self.most - self.before, MEMORY_KIB)


# --- slowhttptest -------------------------------------------------------------------------------------------------

SLOW = {
    "headers": ["-H", "-x", "24", "-t", "GET"],
    "body": ["-B", "-s", "8192", "-x", "10", "-t", "POST", "-f", "application/json"],
    "range": ["-R", "-a", "10", "-b", "3000", "-t", "HEAD"],
    "read": ["-X", "-w", "10", "-y", "20", "-n", "5", "-z", "32", "-k", "3"],
}


@pytest.mark.parametrize("mode", SLOW)
def test_slowhttptest_keeps_nobody_out(server, mode):
    assert shutil.which("slowhttptest"), "`./test python` installs it"
    path = {"headers": "/v1/models", "body": "/v1/chat/completions"}.get(mode, "/openapi.json")
    command = ["slowhttptest", *SLOW[mode], "-u", server.url + path, "-c", str(CONNECTIONS), "-r", str(CONNECTIONS)]
    command += ["-i", "1", "-p", "5", "-l", str(int(max(SECONDS, 1)))]
    with GoodClient(server):
        run = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS + 60, check=False)
    report = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", run.stdout + run.stderr)
    assert "Exit status" in report, report
    # The attacker sends requests in between like other clients.
    assert set(re.findall(r"service available: +(\w+)", report)) == {"YES"}, report


# --- HTTP/2 -------------------------------------------------------------------------------------------------------


class Attacker:
    """A connection that says whatever frames it likes, and notes what it is told."""

    def __init__(self, server, settings=None):
        address = urlsplit(server.url)
        self.socket = socket.create_connection((address.hostname, address.port), 10)
        self.socket.setblocking(False)
        self.encoder = hpack.Encoder()
        self.heard = b""
        self.is_closed = False
        self.settings = settings or {}
        self.path = "/v1/models"
        self.send(PREFACE + frame.SettingsFrame(0, settings=self.settings).serialize(), time.monotonic() + 10)

    def send(self, data, until, reads=True):
        """Sends all of it, unless the gateway closes or the time is over."""
        view = memoryview(data)
        while view and not self.is_closed and time.monotonic() < until:
            readable, writable, _ = select.select([self.socket] if reads else [], [self.socket], [], 0.1)
            try:
                if readable:
                    self.hear()
                if writable:
                    view = view[self.socket.send(view) :]
            except BlockingIOError:
                pass
            except OSError:
                self.is_closed = True
        return not view

    def hear(self):
        heard = self.socket.recv(1 << 16)
        # The last bytes are enough to see a GOAWAY in.
        self.heard = (self.heard + heard)[-(1 << 20) :]
        self.is_closed |= not heard

    def listen(self, seconds):
        """Reads until the gateway closes or the time is over."""
        until = time.monotonic() + seconds
        while not self.is_closed and time.monotonic() < until:
            try:
                if select.select([self.socket], [], [], 0.1)[0]:
                    self.hear()
            except OSError:
                self.is_closed = True

    def headers(self, stream, flags, extra=(), method="GET", path=None):
        fields = [(":method", method), (":scheme", "http"), (":path", path or self.path), (":authority", "x")]
        fields += [("authorization", f"Bearer {KEY}"), *extra]
        return frame.HeadersFrame(stream, self.encoder.encode(fields), flags=flags).serialize()

    def frames(self):
        """The frames that were heard, as far as they are whole."""
        rest, found = memoryview(self.heard), []
        while len(rest) >= 9:
            one, length = frame.Frame.parse_frame_header(rest[:9])
            if len(rest) < 9 + length:
                break
            found.append(one)
            rest = rest[9 + length :]
        return found

    def was_sent_away(self):
        return self.is_closed or any(isinstance(one, frame.GoAwayFrame) for one in self.frames())


WHOLE = ("END_HEADERS", "END_STREAM")


def rapid_reset(attacker, number):
    stream = 2 * number + 1
    return attacker.headers(stream, WHOLE) + frame.RstStreamFrame(stream, error_code=8).serialize()


def continuation_flood(attacker, number):
    if number == 0:
        return attacker.headers(1, ())
    return frame.ContinuationFrame(1, b"\x00\x01x\x01y" * 100).serialize()


def empty_continuations(attacker, number):
    return attacker.headers(1, ()) if number == 0 else frame.ContinuationFrame(1, b"").serialize()


def made_you_reset(attacker, number):
    """A frame that makes the gateway itself reset the stream."""
    stream = 2 * number + 1
    return attacker.headers(stream, WHOLE) + frame.WindowUpdateFrame(stream, window_increment=0).serialize()


def hpack_bomb(attacker, number):
    """A header of 4,000 bytes in the dynamic table, and a byte for each time that it is meant."""
    stream = 2 * number + 1
    if number == 0:
        return attacker.headers(stream, WHOLE, [("x-bomb", "y" * 4000)])
    block = attacker.encoder.encode([(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "x")])
    return frame.HeadersFrame(stream, block + b"\xbe" * 16_000, flags=WHOLE).serialize()


def many_streams(attacker, number):
    return attacker.headers(2 * number + 1, ("END_HEADERS",), method="POST", path="/v1/chat/completions")


def empty_data(attacker, number):
    if number == 0:
        return attacker.headers(1, ("END_HEADERS",), method="POST", path="/v1/chat/completions")
    return frame.DataFrame(1, b"").serialize() * 100


def pings(attacker, number):
    return frame.PingFrame(0, opaque_data=b"12345678").serialize() * 100


def settings(attacker, number):
    return frame.SettingsFrame(0, settings={frame.SettingsFrame.MAX_CONCURRENT_STREAMS: 100}).serialize() * 100


def zero_window(attacker, number):
    """Asks for answers that it never makes room for."""
    if number >= 100:
        return b""
    return attacker.headers(2 * number + 1, WHOLE, path="/openapi.json")


# A client that breaks a rule of the protocol is disconnected. Many small requests cost no growing memory.
ENDED = [rapid_reset, continuation_flood, empty_continuations, made_you_reset, hpack_bomb]
BORNE = [many_streams, empty_data, pings, settings, zero_window]


def attack(server, what, reads=True, **options):
    until = time.monotonic() + SECONDS
    attacker = Attacker(server, **options)
    number = 0
    while time.monotonic() < until and not attacker.was_sent_away() and number < 10_000:
        data = what(attacker, number)
        if not data:
            attacker.listen(until - time.monotonic()) if reads else time.sleep(max(0, until - time.monotonic()))
            break
        attacker.send(data, until, reads)
        number += 1
    return attacker, number


@pytest.mark.parametrize("what", ENDED, ids=lambda what: what.__name__)
def test_whoever_abuses_http2_is_sent_away(server, what):
    with GoodClient(server) as good:
        for _ in range(5):
            attacker, number = attack(server, what)
            attacker.listen(30)
            assert attacker.was_sent_away(), f"{what.__name__}: {number} rounds, and still welcome"
            good.most = max(good.most, memory_kib(server))
            attacker.socket.close()


@pytest.mark.parametrize("reads", [True, False], ids=["reading", "deaf"])
@pytest.mark.parametrize("what", BORNE, ids=lambda what: what.__name__)
def test_whoever_floods_http2_costs_little(server, what, reads):
    options = {"settings": {frame.SettingsFrame.INITIAL_WINDOW_SIZE: 0}} if what is zero_window else {}
    with GoodClient(server) as good:
        attacker, number = attack(server, what, reads, **options)
        assert number > 0
        good.most = max(good.most, memory_kib(server))
        attacker.socket.close()
