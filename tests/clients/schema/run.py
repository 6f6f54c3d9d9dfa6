"""Runs Schemathesis against a gateway with the demo provider: what the OpenAPI document says must be what is answered.

SCHEMA_EXAMPLES: test cases for each operation, 50 unless said otherwise. More arguments go to `schemathesis run`.
"""

import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
ADMIN = "sk-schema-test-admin"

CONFIG = f"""
[server]
listen = "127.0.0.1:0"

# The models that fail on purpose are asked like any other: none of them may rest.
[routing.breaker]
failures = 10000

[[providers]]
name = "demo"
api = "demo"

[[keys]]
name = "schema"
key = "{ADMIN}"
role = "admin"
"""


def start(folder):
    """The program, when it listens, and its URL."""
    (folder / "gateway.toml").write_text(CONFIG, encoding="utf-8")
    binary = os.environ.get("MODEL_GATEWAY_BIN", str(ROOT / "target/debug/model-gateway"))
    command = [binary, "serve", "--config", str(folder / "gateway.toml")]
    environment = {**os.environ, "MODEL_GATEWAY_DATA_DIR": str(folder / "data")}
    program = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment
    )
    said = []
    for line in program.stdout:
        said.append(line)
        found = re.search(r"listening on (http://[\d.]+:\d+)(?![\d.])", line)
        if found:
            # Its later output must be read, or it would block on a full pipe.
            threading.Thread(target=lambda: said.extend(program.stdout), daemon=True).start()
            return program, found.group(1)
    sys.exit("the gateway did not start:\n" + "".join(said))


def main():
    with tempfile.TemporaryDirectory() as folder:
        program, url = start(Path(folder))
        try:
            command = [
                *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(HERE / "schemathesis.toml")),
                *("run", os.environ.get("SCHEMA_DOCUMENT", url + "/openapi.json"), "--url", url),
                *("--header", f"Authorization: Bearer {ADMIN}", "--continue-on-failure"),
                # The same cases in every run; the long part draws new ones.
                *(("--seed", os.environ.get("SCHEMA_SEED", "20261122")) if os.environ.get("SCHEMA_SEED") != "random" else ()),
                *("--max-examples", os.environ.get("SCHEMA_EXAMPLES", "50"), *sys.argv[1:]),
            ]
            environment = {**os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(HERE)}
            return subprocess.run(command, env=environment, cwd=folder, check=False).returncode
        finally:
            program.terminate()
            program.wait(60)


if __name__ == "__main__":
    sys.exit(main())
