"""Cohere's client, LangChain's Cohere reranker and plain HTTP at the typed rerank surface, in front of llama.cpp's own server."""

from decimal import Decimal

import cohere
import httpx
import pytest
from langchain_cohere import CohereRerank
from langchain_core.documents import Document

QUERY = "What is the capital of France?"
DOCUMENTS = [
    "Bananas are yellow.",
    "Paris is the capital of France.",
    "The river Seine flows through Paris.",
    "Rust is a programming language.",
]
MODEL = "reranker/rerank"


@pytest.fixture(scope="module")
def vendor(gateway, key):
    return cohere.ClientV2(key, base_url=gateway.url)


@pytest.fixture(scope="module")
def own(reranker):
    """The order and the scores that llama.cpp's server gives when it is asked directly."""
    told = httpx.post(f"{reranker}/v1/rerank", json={"query": QUERY, "documents": DOCUMENTS}).raise_for_status().json()
    ranks = sorted(told["results"], key=lambda rank: -rank["relevance_score"])
    return [(rank["index"], rank["relevance_score"]) for rank in ranks], told["usage"]["prompt_tokens"]


def ranks(results):
    return [(rank.index, rank.relevance_score) for rank in results]


def test_the_order_and_the_scores_are_those_of_the_server(vendor, own):
    order, _ = own
    assert len({score for _, score in order}) == len(DOCUMENTS)
    assert ranks(vendor.rerank(model=MODEL, query=QUERY, documents=DOCUMENTS).results) == order
    assert ranks(vendor.rerank(model=MODEL, query=QUERY, documents=DOCUMENTS, top_n=2).results) == order[:2]


def test_cohere_v1(gateway, key, own):
    client = cohere.Client(key, base_url=gateway.url)
    told = client.rerank(model=MODEL, query=QUERY, documents=DOCUMENTS, return_documents=True)
    assert ranks(told.results) == own[0]
    assert [rank.document.text for rank in told.results] == [DOCUMENTS[index] for index, _ in own[0]]


def test_langchain(vendor, own):
    order, _ = own
    reranker = CohereRerank(client=vendor, model=MODEL, top_n=3)
    documents = [Document(page_content=text, metadata={"place": place}) for place, text in enumerate(DOCUMENTS)]
    found = reranker.compress_documents(documents, QUERY)
    assert [(text.metadata["place"], text.metadata["relevance_score"]) for text in found] == order[:3]


def test_usage_and_cost_are_of_the_servers_tokens(base_url, key, own):
    order, tokens = own
    asked = {"model": MODEL, "query": QUERY, "documents": DOCUMENTS}
    answer = httpx.post(f"{base_url}/rerank", json=asked, headers={"authorization": f"Bearer {key}"}).raise_for_status()
    told = answer.json()
    assert [(rank["index"], rank["relevance_score"]) for rank in told["results"]] == order
    assert told["usage"]["prompt_tokens"] == tokens
    assert Decimal(answer.headers["x-gateway-cost-usd"]) == tokens * Decimal("0.02") / 1_000_000
    assert answer.headers["x-gateway-model"] == MODEL
