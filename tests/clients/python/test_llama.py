"""llama.cpp's own server as the upstream: nobody here wrote it, so it does not share our misunderstandings."""

import math
from typing import Literal

import httpx
import openai
import pytest
from pydantic import BaseModel

PROMPT = [{"role": "user", "content": "the of and to in is"}]


def cost(usage):
    cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else 0
    return ((usage.prompt_tokens - cached) * 0.15 + cached * 0.075 + usage.completion_tokens * 0.60) / 1e6


def test_chat(client):
    answer = client.chat.completions.create(model="tiny/chat", messages=PROMPT, max_tokens=12, temperature=0)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.prompt_tokens > 5 and 0 < answer.usage.completion_tokens <= 12
    assert math.isclose(answer.usage.cost_usd, cost(answer.usage), rel_tol=1e-12)
    assert answer.gateway["model_used"] == "tiny/chat" and answer.gateway["warnings"] == []
    assert answer.system_fingerprint


def test_stream_equals_the_plain_answer(client):
    request = {"model": "tiny/chat", "messages": PROMPT, "max_tokens": 24, "temperature": 0, "seed": 1}
    plain = client.chat.completions.create(**request)
    chunks = list(client.chat.completions.create(**request, stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1])
    assert text == plain.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == plain.usage.completion_tokens
    assert math.isclose(chunks[-1].usage.cost_usd, cost(chunks[-1].usage), rel_tol=1e-12)
    assert chunks[0].choices[0].delta.model_dump(exclude_unset=True) == {"role": "assistant"}


def test_logprobs_and_several_choices(client):
    answer = client.chat.completions.create(
        model="tiny/chat", messages=PROMPT, max_tokens=3, n=2, logprobs=True, top_logprobs=2
    )
    assert [choice.index for choice in answer.choices] == [0, 1]
    for choice in answer.choices:
        assert choice.logprobs and len(choice.logprobs.content[0].top_logprobs) == 2
    chunks = list(
        client.chat.completions.create(model="tiny/chat", messages=PROMPT, max_tokens=3, logprobs=True, stream=True)
    )
    assert any(chunk.choices[0].logprobs for chunk in chunks)


def test_a_schema_binds_even_noise(client):
    class Answer(BaseModel):
        yes: bool
        colour: Literal["red", "green", "blue"]

    request = {"model": "tiny/chat", "messages": PROMPT, "max_tokens": 200, "temperature": 0}
    parsed = client.chat.completions.parse(**request, response_format=Answer)
    assert isinstance(parsed.choices[0].message.parsed, Answer)
    with client.chat.completions.stream(**request, response_format=Answer) as stream:
        message = stream.until_done().get_final_completion().choices[0].message
    assert isinstance(message.parsed, Answer)


def test_text_completion(client, lenient):
    answer = client.completions.create(model="tiny/chat", prompt="the of and", max_tokens=6)
    assert answer.object == "text_completion" and answer.id.startswith("cmpl-")
    assert answer.usage.completion_tokens <= 6
    chunks = list(
        lenient.completions.create(model="tiny/chat", prompt="the of and", max_tokens=6, temperature=0, stream=True)
    )
    assert chunks[-1].choices[0].finish_reason == "length"
    many = client.completions.create(model="tiny/chat", prompt=["the of", "and to"], max_tokens=4)
    assert [choice.index for choice in many.choices] == [0, 1]


def test_an_unpriced_model_says_so(client):
    answer = client.chat.completions.create(model="tiny/models/with/slashes", messages=PROMPT, max_tokens=2)
    assert answer.usage.cost_usd == 0
    assert answer.gateway["warnings"] == ["price_unknown"]


def test_its_own_errors_become_ours(client, base_url, key):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model="tiny/chat", messages=[{"role": "user", "content": "the of and " * 2000}], max_tokens=4
        )
    assert caught.value.code == "context_length_exceeded"
    # llama.cpp refuses this grammar with {"error": {"code": 400, …}}: a number that must become a string.
    answer = httpx.post(
        base_url + "/chat/completions",
        headers={"authorization": f"Bearer {key}"},
        json={"model": "tiny/chat", "messages": PROMPT, "grammar": "root ::= ("},
    )
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "code"}
    assert error["type"] == "invalid_request_error" and isinstance(error["code"], str)


def test_real_embeddings_mean_something(client, lenient):
    texts = ["A cat sits on the mat.", "A kitten rests on a rug.", "Stock prices fell sharply today."]
    answer = lenient.embeddings.create(model="minilm/embed", input=texts)
    cat, kitten, stocks = (item.embedding for item in answer.data)
    assert len(cat) == 384

    def similarity(a, b):
        return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))

    # 0.665 and 0.063 are what the model's own files give for these sentences.
    assert similarity(cat, kitten) == pytest.approx(0.665, abs=0.01)
    assert similarity(cat, stocks) == pytest.approx(0.063, abs=0.02)
    floats = client.embeddings.create(model="minilm/embed", input=texts, encoding_format="float")
    assert floats.data[0].embedding == pytest.approx(cat, rel=1e-5, abs=1e-7)
    assert answer.usage.prompt_tokens > 0
