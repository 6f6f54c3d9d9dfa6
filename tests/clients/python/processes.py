"""Child processes of the tests, the gateway among them. Only the standard library: every suite imports it."""

import contextlib
import os
import re
import subprocess
import threading
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
# Settings of the person who runs the tests; none of them may reach the gateway.
PRIVATE_SUFFIXES = ("_API_KEY", "_API_TOKEN", "OLLAMA_HOST")
PRIVATE_PREFIXES = ("AWS_", "GOOGLE_", "AZURE_")


class Running:
    """A child process that prints `listening on URL` when it is ready."""

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
        # The later output must be read, or the process blocks on a full pipe.
        threading.Thread(target=lambda: self.lines.extend(self.process.stdout), daemon=True).start()

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


def eventually(condition):
    """What the condition returns, once it is true."""
    end = time.monotonic() + 15
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen")


@contextlib.contextmanager
def running(command, **options):
    """A child process for as long as the block lasts."""
    process = Running(command, **options)
    try:
        yield process
    finally:
        process.stop()


@contextlib.contextmanager
def running_gateway(folder, config, **environment):
    """The real gateway with this gateway.toml. Its data is below `folder`."""
    path = folder / "gateway.toml"
    path.write_text(config, encoding="utf-8")
    binary = os.environ.get("MODEL_GATEWAY_BIN", str(ROOT / "target/debug/model-gateway"))
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith(PRIVATE_SUFFIXES) and not name.startswith(PRIVATE_PREFIXES)
    }
    environment = {**inherited, "MODEL_GATEWAY_DATA_DIR": str(folder / "data"), **environment}
    with running([binary, "serve", "--config", str(path)], env=environment, cwd=folder) as process:
        yield process
