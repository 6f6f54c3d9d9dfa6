"""Embeddings and text completions: what the vendors' packages say of those requests, and what their types answer."""

import re
from urllib.parse import unquote

import ollama
import pydantic
from cohere.types import EmbedByTypeResponse
from cohere.v2.raw_client import RawV2Client
from google.genai import types as google
from mistralai.client import models as mistral
from openai import types as openai
from openai.types import completion_create_params, embedding_create_params
from upstreams import Answer, stream

from .bedrock_ import shape, valid
from .cohere_ import Cohere, body_of
from .common import ANSWER_TOKENS, PROMPT_TOKENS, TEXT, Asked, Invalid, Shape, load, need, sse, words
from .google_ import Google, Vertex
from .mistral_ import Mistral
from .ollama_ import Ollama
from .openai_ import Azure, OpenAi, halves

VECTOR = [0.5, -0.25, 0.125]


class GoogleBatch(pydantic.BaseModel):
    """The page "BatchEmbedContentsRequest", ai.google.dev/api/embeddings, of the package's parts."""

    class One(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="forbid")
        model: str
        content: google.Content
        taskType: str | None = None
        outputDimensionality: int | None = None

    model_config = pydantic.ConfigDict(extra="forbid")
    requests: list[One]


class VertexPredict(pydantic.BaseModel):
    """The page "Text embeddings API", docs.cloud.google.com/vertex-ai, read 2026-11-22."""

    class Instance(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="forbid")
        content: str
        task_type: str | None = None
        title: str | None = None

    class Parameters(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="forbid")
        autoTruncate: bool | None = None
        outputDimensionality: int | None = None

    model_config = pydantic.ConfigDict(extra="forbid")
    instances: list[Instance]
    parameters: Parameters | None = None


class Titan(pydantic.BaseModel):
    """The page "Amazon Titan Text Embeddings V2", Amazon Bedrock user guide: botocore has no shape of the blob."""

    model_config = pydantic.ConfigDict(extra="forbid")
    inputText: str
    dimensions: int | None = None
    normalize: bool | None = None
    embeddingTypes: list[str] | None = None


OPENAI_EMBED = Shape(embedding_create_params.EmbeddingCreateParams)
OPENAI_TEXT = Shape(completion_create_params.CompletionCreateParams)
MISTRAL_EMBED = Shape(mistral.EmbeddingRequest)
MISTRAL_FIM = Shape(mistral.FIMCompletionRequest)
GOOGLE_EMBED = Shape(GoogleBatch, strict=False)
VERTEX_EMBED = Shape(VertexPredict)
TITAN = Shape(Titan)
COHERE_EMBED = body_of(RawV2Client.embed)


def count(texts):
    return 1 if isinstance(texts, str) else len(texts)


class Embeds:
    """A dialect's embeddings: the same key and the same refusals as its chats."""

    def write(self, asked):
        return Answer(self.written(asked.n, asked.model))


class OpenAiEmbeds(Embeds, OpenAi):
    path = re.compile(r"/([a-z]+)/v1/embeddings")
    # "Text embeddings", docs.voyageai.com: its own names beside OpenAI's `input` and `model`.
    voyage = {"output_dimension": "dimensions", "output_dtype": None, "truncation": None, "input_type": None}

    def read(self, request):
        need(request.header("authorization") == "Bearer " + self.key, "no key")
        return self.checked(load(request.body), self.vendor(request))

    def checked(self, body, vendor):
        if vendor == "voyage":
            body = {self.voyage.get(name, name): value for name, value in body.items()}
            body.pop(None, None)
        OPENAI_EMBED.check(body)
        return Asked(body["model"], n=count(body["input"]))

    def written(self, n, model):
        data = [openai.Embedding(object="embedding", index=at, embedding=VECTOR) for at in range(n)]
        usage = {"prompt_tokens": PROMPT_TOKENS, "total_tokens": PROMPT_TOKENS}
        answer = openai.CreateEmbeddingResponse.model_validate(
            {"object": "list", "data": data, "model": model, "usage": usage}
        )
        return answer.model_dump_json().encode()


class AzureEmbeds(OpenAiEmbeds):
    key = Azure.key
    path = re.compile(r"/openai/deployments/([^/]+)/embeddings\?api-version=2024-10-21")

    def read(self, request):
        need(request.header("api-key") == self.key, "no key")
        return self.checked({"model": self.vendor(request), **load(request.body)}, "azure")


class MistralEmbeds(Embeds, Mistral):
    def takes(self, path):
        return path == "/mistral/v1/embeddings"

    def read(self, request):
        body = load(request.body)
        MISTRAL_EMBED.check(body)
        return Asked(body["model"], n=count(body["input"]))

    def written(self, n, model):
        data = [{"object": "embedding", "index": at, "embedding": VECTOR} for at in range(n)]
        usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": 0, "total_tokens": PROMPT_TOKENS}
        body = {"id": "e1", "object": "list", "model": model, "data": data, "usage": usage}
        return mistral.EmbeddingResponse.model_validate(body, extra="forbid").model_dump_json().encode()


class GoogleModelEmbeds(Embeds):
    """Google's two dialects: the path names the model, and `inputs` gives the texts of a valid body."""

    def read(self, request):
        self.check_key(request)
        model = self.path.fullmatch(request.path).group(1)
        body = load(request.body)
        self.body.check(body)
        return Asked(model, n=len(self.inputs(body, model)))


class GoogleEmbeds(GoogleModelEmbeds, Google):
    path = re.compile(r"/v1beta/models/([^:?]+):batchEmbedContents")
    body = GOOGLE_EMBED

    def inputs(self, body, model):
        need(all(one["model"] == "models/" + model for one in body["requests"]), "requests: another model")
        # "BatchEmbedContents": at most 100 requests can be in one batch.
        need(len(body["requests"]) <= 100, "at most 100 requests can be in one batch")
        return body["requests"]

    def written(self, n, model):
        answer = google.EmbedContentResponse(embeddings=[google.ContentEmbedding(values=VECTOR)] * n)
        return answer.model_dump_json(by_alias=True, exclude_none=True).encode()


class VertexEmbeds(GoogleModelEmbeds, Vertex):
    path = re.compile(r"/v1/projects/a-project/locations/europe-west4/publishers/google/models/([^:?]+):predict")
    body = VERTEX_EMBED

    def inputs(self, body, model):
        need(model != "gemini-embedding-001" or len(body["instances"]) == 1, "instances: this model takes one text")
        return body["instances"]

    def written(self, n, model):
        statistics = google.ContentEmbeddingStatistics(truncated=False, token_count=3)
        one = google.ContentEmbedding(values=VECTOR, statistics=statistics).model_dump(exclude_none=True)
        return {"predictions": [{"embeddings": one}] * n}


class CohereEmbeds(Embeds, Cohere):
    def takes(self, path):
        return path == "/v2/embed"

    def read(self, request):
        body = load(request.body)
        try:
            COHERE_EMBED.model_validate(body, extra="forbid")
        except pydantic.ValidationError as fault:
            raise Invalid(words(fault)) from None
        # "Embed", docs.cohere.com/reference/embed: at most 96 texts.
        need(len(body["texts"]) <= 96, "texts: at most 96")
        return Asked(body["model"], n=len(body["texts"]))

    def written(self, n, model):
        meta = {"billed_units": {"input_tokens": PROMPT_TOKENS}}
        body = {"id": "e1", "embeddings": {"float": [VECTOR] * n}, "texts": ["-"] * n, "meta": meta}
        return EmbedByTypeResponse.model_validate({**body, "response_type": "embeddings_by_type"}).json().encode()


class BedrockEmbeds(Embeds):
    api = "bedrock"
    path = re.compile(r"/model/([^/]+)/invoke")

    def takes(self, path):
        return self.path.fullmatch(path) is not None

    def read(self, request):
        model = unquote(self.path.fullmatch(request.path).group(1))
        content = {"contentType": request.header("content-type"), "accept": request.header("accept") or "*/*"}
        valid({"modelId": model, "body": request.body, **content}, shape("InvokeModel"))
        TITAN.check(request.body)
        return Asked(model)

    def written(self, n, model):
        return {"embedding": VECTOR, "inputTextTokenCount": PROMPT_TOKENS}

    def refuse(self, message):
        return Answer({"message": message}, 400)


class OllamaEmbeds(Embeds, Ollama):
    def takes(self, path):
        return path == "/api/embed"

    def read(self, request):
        body = load(request.body)
        try:
            ollama._types.EmbedRequest.model_validate(body, extra="forbid")
        except pydantic.ValidationError as fault:
            raise Invalid(words(fault)) from None
        return Asked(body["model"], n=count(body["input"]))

    def written(self, n, model):
        answer = ollama.EmbedResponse(model=model, embeddings=[VECTOR] * n, prompt_eval_count=PROMPT_TOKENS)
        return answer.model_dump_json(exclude_none=True).encode()


# --- Text completions ---------------------------------------------------------------------------------------------


class OpenAiText(OpenAi):
    path = re.compile(r"/([a-z]+)/v1/completions")

    def read(self, request):
        need(request.header("authorization") == "Bearer " + self.key, "no key")
        body = load(request.body)
        OPENAI_TEXT.check(body)
        return Asked(
            body["model"],
            stream=bool(body.get("stream")),
            n=1 if isinstance(body["prompt"], str) else len(body["prompt"]),
        )

    def write(self, asked):
        head = {"id": "cmpl-1", "object": "text_completion", "created": 1767225600, "model": asked.model}
        usage = {
            "prompt_tokens": PROMPT_TOKENS,
            "completion_tokens": ANSWER_TOKENS,
            "total_tokens": PROMPT_TOKENS + ANSWER_TOKENS,
        }

        def written(parts, finish, **more):
            choices = [{"index": at, "text": part, "finish_reason": finish, "logprobs": None} for at, part in parts]
            # The package's type has no choice that goes on; the API streams them.
            answer = openai.Completion.construct(**head, choices=choices, **more)
            return answer.model_dump_json(warnings=False)

        if not asked.stream:
            return Answer(written([(at, TEXT) for at in range(asked.n)], "stop", usage=usage).encode())
        bodies = [written([(at, part)], None) for part in halves(TEXT) for at in range(asked.n)]
        bodies += [written([(at, "")], "stop") for at in range(asked.n)]
        return stream(sse(*bodies, written([], None, usage=usage), b"[DONE]"), "text/event-stream")


class MistralFill(Mistral):
    def takes(self, path):
        return path == "/mistral/v1/fim/completions"

    def read(self, request):
        body = load(request.body)
        MISTRAL_FIM.check(body)
        return Asked(body["model"], stream=bool(body.get("stream")), question=False)


class OllamaFill(Ollama):
    def takes(self, path):
        return path == "/api/generate"

    def read(self, request):
        body = load(request.body)
        need(not body.pop("truncate", False) and not body.pop("shift", False), "the prompt may be cut")
        try:
            ollama.Options.model_validate(body.get("options", {}), extra="forbid")
            ollama._types.GenerateRequest.model_validate(body, extra="forbid")
        except pydantic.ValidationError as fault:
            raise Invalid(words(fault)) from None
        return Asked(body["model"], stream=body["stream"])

    def write(self, asked):
        def line(text, done):
            end = (
                {"done_reason": "stop", "prompt_eval_count": PROMPT_TOKENS, "eval_count": ANSWER_TOKENS} if done else {}
            )
            body = {"model": asked.model, "created_at": "2026-01-01T00:00:00Z", "response": text, "done": done, **end}
            return (
                ollama.GenerateResponse.model_validate(body, extra="forbid").model_dump_json(exclude_none=True).encode()
            )

        if not asked.stream:
            return Answer(line(TEXT, True))
        return stream(
            [line(part, False) + b"\n" for part in halves(TEXT)] + [line("", True) + b"\n"], "application/x-ndjson"
        )


# The more particular path first.
OTHERS = [
    MistralEmbeds(),
    AzureEmbeds(),
    OpenAiEmbeds(),
    GoogleEmbeds(),
    VertexEmbeds(),
    CohereEmbeds(),
    BedrockEmbeds(),
    OllamaEmbeds(),
    OpenAiText(),
    MistralFill(),
    OllamaFill(),
]
