"""Runs llama.cpp's own HTTP server (from the xllamacpp wheel) on one model and prints where it listens."""

import os
import sys
import time
from pathlib import Path

import models
import xllamacpp


def main() -> None:
    kind, folder = sys.argv[1], Path(sys.argv[2])
    params = xllamacpp.CommonParams()
    path = folder / f"{kind}.gguf"
    params.model.path = str(models.tiny_llama(path) if kind == "tiny" else models.minilm(path))
    params.n_ctx = 1024  # for both slots together
    params.n_parallel = 2
    params.warmup = False
    params.cpuparams.n_threads = 1
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.endpoint_metrics = False
    if kind == "minilm":
        params.embedding = True
    server = xllamacpp.Server(params)
    # One write for the whole line: llama.cpp's log writes to this pipe from its own thread.
    os.write(sys.stdout.fileno(), f"\nlistening on {server.listening_address}\n".encode())
    while True:
        time.sleep(3600)


main()
