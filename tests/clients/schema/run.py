"""Runs Schemathesis against a gateway with the demo provider: what the OpenAPI document says must be what is answered.

SCHEMA_EXAMPLES: test cases for each operation, 50 unless said otherwise. More arguments go to `schemathesis run`.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "python"))

from processes import running_gateway  # noqa: E402 - the line before finds it

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


def main():
    with tempfile.TemporaryDirectory() as folder, running_gateway(Path(folder), CONFIG) as gateway:
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(HERE / "schemathesis.toml")),
            *("run", os.environ.get("SCHEMA_DOCUMENT", gateway.url + "/openapi.json"), "--url", gateway.url),
            *("--header", f"Authorization: Bearer {ADMIN}", "--continue-on-failure"),
            # The same cases in every run; the long part draws new ones.
            *(("--seed", os.environ.get("SCHEMA_SEED", "20261122")) if os.environ.get("SCHEMA_SEED") != "random" else ()),
            *("--max-examples", os.environ.get("SCHEMA_EXAMPLES", "50"), *sys.argv[1:]),
        ]
        environment = {**os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(HERE)}
        return subprocess.run(command, env=environment, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
