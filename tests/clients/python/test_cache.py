"""Answers out of the cache, put together by OpenAI's own client: what is replayed as a stream is the message that was stored.

REPLAYS=10000 is the promise (`-o faulthandler_timeout=900`); a fifth of it is asked for by default.
"""

import asyncio
import functools
import json
import os
import random

import httpx2
from openai import AsyncOpenAI
from upstreams import KEY, Answer, gateway, reasoning_of, stream, upstream

REPLAYS = int(os.environ.get("REPLAYS", "2000"))
WORKERS = 16

CONFIG = """
[[providers]]
name = "script"
api = "openai"
base_url = "{url}/v1"

[[models]]
id = "script/any"
pricing = {{ official_input_per_m = 0.15, official_output_per_m = 0.60, currency = "USD" }}
"""

# Texts that have broken streams, clients and JSON readers before.
WORDS = [
    "word", " ", "\n", "\r\n\r\n", "\t", '"', "\\", "\\n", "\\u0041", "data: [DONE]\n\n", "data: {}\n", ":\n", "event: error\n",
    "é", "e\u0301", "ß", "日本語", "שלום", "\u202e", "\u2028", "\u2029", "\u0085", "\ufeff", "\ufffd", "\u0000", "\u001f",
    "\u007f", "😀", "👩‍👩‍👧‍👦", "🇩🇪", "\U0010ffff", "</script>", "```json\n", "{", "[1,2", "null", "0.1e-7", " ",
]  # fmt: skip


# Arguments that are no JSON: a model that says it has ended, and has not.
BROKEN = '{"cut": "of'


def text(chance, most=20):
    return "".join(chance.choice(WORDS) for _ in range(chance.randint(1, most)))


def message(chance, kind):
    """A message of an assistant, and why it ended."""
    said = {"role": "assistant", "content": None}
    if kind != "tools" or chance.random() < 0.3:
        said["content"] = text(chance)
    if kind == "refusal":
        said |= {"content": None, "refusal": text(chance)}
    if kind == "thought" or chance.random() < 0.1:
        said["reasoning_content"] = text(chance)
    if kind != "tools":
        return said, chance.choice(["stop", "stop", "length"])
    arguments = ["", "{}", json.dumps({"a": text(chance)}), json.dumps({"ü": [1, None]}, ensure_ascii=False), BROKEN]
    said["tool_calls"] = [
        {
            "id": f"call_{chance.getrandbits(64):x}",
            "type": "function",
            "function": {"name": chance.choice(["f", "get_weather"]), "arguments": chance.choice(arguments)},
        }
        for _ in range(chance.randint(1, 3))
    ]
    return said, "tool_calls"


@functools.lru_cache(64)
def answer(number):
    """The upstream's answer to question `number`: [(message, finish reason)]."""
    chance = random.Random(number)
    kind = chance.choice(["text", "text", "text", "tools", "tools", "refusal", "thought"])
    return [message(chance, kind) for _ in range(chance.choice([1, 1, 1, 2, 3]))]


def body(number):
    """The answer as one document."""
    choices = [
        {"index": index, "message": said, "finish_reason": reason, "logprobs": None}
        for index, (said, reason) in enumerate(answer(number))
    ]
    usage = {"prompt_tokens": 7, "completion_tokens": number % 100 + 1, "total_tokens": number % 100 + 8}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": usage}


def deltas(chance, said):
    """The message in pieces, in the order in which servers send them."""
    yield {"role": "assistant", "content": ""}
    for name in ("reasoning_content", "content", "refusal"):
        whole = said.get(name) or ""
        while whole:
            size = chance.randint(1, 12)
            yield {name: whole[:size]}
            whole = whole[size:]
    for index, call in enumerate(said.get("tool_calls", [])):
        whole = call["function"]["arguments"]
        yield {"tool_calls": [{**call, "index": index, "function": {**call["function"], "arguments": ""}}]}
        while whole:
            size = chance.randint(1, 12)
            yield {"tool_calls": [{"index": index, "function": {"arguments": whole[:size]}}]}
            whole = whole[size:]


def events(number):
    """This answer as a stream, with alternating choices."""
    chance = random.Random(-number)
    document = body(number)
    open_choices = [
        (index, deltas(chance, said), reason) for index, (said, reason) in enumerate(answer(number))
    ]

    def chunk(**more):
        document_chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", **more}
        return b"data: " + json.dumps(document_chunk).encode() + b"\n\n"

    while open_choices:
        at = chance.randrange(len(open_choices))
        index, pieces, reason = open_choices[at]
        delta = next(pieces, None)
        if delta is None:
            open_choices.pop(at)
        finish = reason if delta is None else None
        yield chunk(choices=[{"index": index, "delta": delta or {}, "finish_reason": finish}])
    yield chunk(choices=[], usage=document["usage"])
    yield b"data: [DONE]\n\n"


def answers(request):
    asked = request.json
    number = int(asked["messages"][0]["content"])
    # A provider that says less than it was asked for is not what this is about: as many choices as were wanted.
    assert asked.get("n", 1) == len(answer(number))
    return stream([b"".join(events(number))], "text/event-stream") if asked.get("stream") else Answer(body=body(number))


def question(number):
    request = {"model": "script/any", "messages": [{"role": "user", "content": str(number)}]}
    count = len(answer(number))
    return request | ({"n": count} if count > 1 else {})


def plain(said):
    """A message as it must look to every client: no content is an empty one, and so are no arguments."""
    calls = [
        (call["id"], call["function"]["name"], call["function"]["arguments"] or "{}") for call in said.get("tool_calls") or []
    ]
    return said.get("content") or "", said.get("refusal"), said.get("reasoning_content"), calls


def of_client(said):
    """A message of the SDK in the same form."""
    calls = [(call.id, call.function.name, call.function.arguments) for call in said.tool_calls or []]
    return said.content or "", said.refusal, reasoning_of(said), calls


def is_kept(number):
    """Whether the cache keeps the answer: one with a broken call is asked for again."""
    calls = [call for said, _ in answer(number) for call in said.get("tool_calls", [])]
    return all(call["function"]["arguments"] != BROKEN for call in calls)


async def check(client, raw, number):
    """Has question `number` answered, half of them by a stream, and compares what the client makes of its replay."""
    wanted = [(index, plain(said), reason) for index, (said, reason) in enumerate(answer(number))]
    first = question(number) | {"cache": {"enabled": True}, "stream": number % 2 == 0}
    async with raw.stream("POST", "/chat/completions", json=first) as asked:
        await asked.aread()
    assert (asked.status_code, asked.headers["x-gateway-cache"]) == (200, "MISS"), asked.text
    extra = {"cache": {"enabled": True}}
    options = {"include_usage": True}
    async with client.chat.completions.stream(**question(number), extra_body=extra, stream_options=options) as replay:
        assert replay._response.headers["x-gateway-cache"] == ("HIT" if is_kept(number) else "MISS"), number
        await replay.until_done()
        # `get_final_completion` refuses answers that ended for their length.
        whole = replay.current_completion_snapshot
    put_together = [(choice.index, of_client(choice.message), choice.finish_reason) for choice in whole.choices]
    assert put_together == wanted, number
    assert whole.usage.completion_tokens == number % 100 + 1
    if number % 10:
        return
    # The stored answer as one document.
    stored = (await raw.post("/chat/completions", json=first | {"stream": False})).json()
    assert stored["gateway"]["cache_hit"] is is_kept(number)
    assert [(c["index"], plain(c["message"]), c["finish_reason"]) for c in stored["choices"]] == wanted, number


async def check_all(url):
    headers = {"authorization": f"Bearer {KEY}"}
    async with (
        AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0, timeout=60) as client,
        httpx2.AsyncClient(base_url=url, headers=headers, timeout=60) as raw,
    ):
        numbers = iter(range(REPLAYS))

        async def work():
            for number in numbers:
                await check(client, raw, number)

        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(work())


def test_stored_answers_replayed_as_streams_are_the_stored_message(tmp_path):
    with upstream() as server, gateway(tmp_path, CONFIG.format(url=server.url)) as client:
        server.reset(answers)
        asyncio.run(check_all(str(client.base_url)))
        server.check()
        # Each is asked for once; an answer that is not kept also for its replay, and for every tenth document.
        again = sum(1 + (number % 10 == 0) for number in range(REPLAYS) if not is_kept(number))
        assert len(server.requests) == REPLAYS + again
