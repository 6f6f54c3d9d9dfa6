"""Runs llm-katan's echo backend on a free port and prints where it listens: a server below each name, well or in some trouble.

The package has a server for each set of options. Here they share a process, an address and an event loop.
"""

import asyncio
import contextlib
import socket
import sys
from pathlib import Path

import uvicorn
from llm_katan.config import ServerConfig
from llm_katan.server import create_app
from starlette.applications import Starlette
from starlette.routing import Mount

PROVIDERS = ["openai", "anthropic", "vertexai", "bedrock", "azure_openai"]
TROUBLES = {
    "well": {},
    "keyed": {"validate_keys": True},
    "failing": {"error_rate": 1.0},
    "limited": {"rate_limit_after": 0.5},  # from the first request on: 0 switches it off
    "timed-out": {"timeout_after": 0.5},
    "full": {"max_inflight": 1},
    "slow": {"ttft_ms": 100, "itl_ms": 20},
    "late": {"latency_ms": 5000},
}


def apps(folder):
    for name, options in TROUBLES.items():
        config = ServerConfig(
            model_name="katan",
            backend="echo",
            providers=PROVIDERS,
            max_concurrent=64,
            dashboard_enabled=False,
            stats_file=str(folder / f"{name}.json"),
            **options,
        )
        yield name, create_app(config)


def main() -> None:
    served = dict(apps(Path(sys.argv[1])))
    listener = socket.create_server(("127.0.0.1", 0))

    @contextlib.asynccontextmanager
    async def lifespan(_):
        async with contextlib.AsyncExitStack() as stack:
            for app in served.values():
                await stack.enter_async_context(app.router.lifespan_context(app))
            # One request counts as permanently in flight.
            served["full"].state.backend._inflight = 1
            print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
            yield

    whole = Starlette(routes=[Mount("/" + name, app) for name, app in served.items()], lifespan=lifespan)
    asyncio.run(
        uvicorn.Server(uvicorn.Config(whole, log_level="warning", timeout_graceful_shutdown=0)).serve([listener])
    )


main()
