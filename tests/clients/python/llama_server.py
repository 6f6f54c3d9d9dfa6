"""Runs llama.cpp's own HTTP server (from the xllamacpp wheel) on one model and prints where it listens."""

import os
import sys
import time
from pathlib import Path

import models
import xllamacpp


# The contexts of the tiny models. The prompts of coding agents are long.
SIZES = {"tiny": 512, "agent": 65536}


def main() -> None:
    kind, folder = sys.argv[1], Path(sys.argv[2])
    params = xllamacpp.CommonParams()
    path = folder / f"{kind}.gguf"
    if kind in ("minilm", "reranker"):
        params.model.path = str(getattr(models, kind)(path))
    else:
        params.model.path = str(models.tiny_llama(path, SIZES[kind]))
    params.n_parallel = 1 if kind == "agent" else 2
    params.n_ctx = SIZES.get(kind, 512) * params.n_parallel
    if kind == "agent":
        # Noise seldom ends by itself, and an agent fails where an answer is cut at a limit. The grammar ends each answer.
        grammar = params.sampling.grammar
        grammar.grammar, grammar.type = "root ::= [a-z ]{8,60}", xllamacpp.common_grammar_type.COMMON_GRAMMAR_TYPE_USER
        params.sampling.grammar = grammar
    # The weights are noise. A sampled answer can begin with the token that ends it, and is empty then.
    params.sampling.temp = 0.0
    params.sampling.seed = 7
    params.warmup = False
    params.cpuparams.n_threads = 1
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.endpoint_metrics = False
    if kind in ("minilm", "reranker"):
        params.embedding = True
    if kind == "reranker":
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_RANK
    server = xllamacpp.Server(params)
    # One write for the whole line: llama.cpp's log writes to this pipe from its own thread.
    os.write(sys.stdout.fileno(), f"\nlistening on {server.listening_address}\n".encode())
    while True:
        time.sleep(3600)


main()
