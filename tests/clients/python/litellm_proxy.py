"""Runs LiteLLM's proxy, in its own virtual environment, on a free port and prints where it listens.

It speaks Anthropic's and Gemini's formats as a server, and hands every request on to the OpenAI-compatible server that
the test names. Nothing leaves the machine: the lists that LiteLLM would fetch at its start are those of the package.
"""

import asyncio
import os
import socket
import sys
from pathlib import Path

CONFIG = """
model_list:{models}
general_settings:
  custom_auth: auth.check
router_settings:
  num_retries: 0
  disable_cooldowns: true
"""

# LiteLLM looks up unknown keys in a database, and answers 400 without one. This check answers 401.
AUTH = """
from litellm.proxy._types import ProxyException, UserAPIKeyAuth

async def check(request, api_key):
    if api_key.removeprefix("Bearer ") == {key!r}:
        return UserAPIKeyAuth(api_key=api_key)
    raise ProxyException(message="Authentication Error", type="auth_error", param="key", code=401)
"""
# Names of both families, because the gateway writes its requests for the model that it calls.
MODELS = ("claude-sonnet-4-5", "claude-3-haiku-20240307", "gemini-2.5-flash")
MODEL = """
  - model_name: {name}
    litellm_params: {{model: hosted_vllm/far, api_base: "{far}/v1", api_key: none}}"""


def main() -> None:
    far, key, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    path = folder / "litellm.yaml"
    models = "".join(MODEL.format(name=name, far=far) for name in MODELS)
    path.write_text(CONFIG.format(models=models), encoding="utf-8")
    (folder / "auth.py").write_text(AUTH.format(key=key), encoding="utf-8")
    os.environ.update(
        CONFIG_FILE_PATH=str(path),
        LITELLM_LOCAL_MODEL_COST_MAP="True",
        LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS="True",
        LITELLM_LOCAL_BLOG_POSTS="True",
        LITELLM_LOCAL_POLICY_TEMPLATES="True",
        LITELLM_MODE="PRODUCTION",
        NO_PROXY="127.0.0.1,localhost",
    )
    import litellm
    import uvicorn
    from litellm.proxy.proxy_server import app

    litellm.telemetry = False
    listener = socket.create_server(("127.0.0.1", 0))

    class Server(uvicorn.Server):
        async def startup(self, sockets=None):
            await super().startup(sockets)
            print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)

    asyncio.run(Server(uvicorn.Config(app, log_level="warning")).serve([listener]))


main()
