"""Google: the `google-genai` package, in its two modes: the Gemini Developer API and Vertex AI. Its types forbid what they
do not know, and its own writer must make of a request the request that came."""

import base64
import json
import re

import pydantic
from google import genai
from google.auth.credentials import AnonymousCredentials
from google.genai import models, types
from upstreams import Answer, stream

from .common import (
    ANSWER_TOKENS,
    ARGUMENTS,
    PROMPT_TOKENS,
    SIGNATURE,
    Asked,
    Invalid,
    is_question,
    load,
    need,
    reply_to,
    sse,
    words,
)

# Members that stand beside `generationConfig` on the wire, and in `GenerateContentConfig` in the package.
BESIDE = {
    "systemInstruction": "system_instruction",
    "tools": "tools",
    "toolConfig": "tool_config",
    "safetySettings": "safety_settings",
}
# "Thinking" (docs.cloud.google.com/gemini-enterprise-agent-platform/models/thinking, read 2026-11-22): the levels of each
# model, where the table names it; of 3.1 and 3.5 "Developer's guide to Gemini 3.5 Flash" beside it.
FOUR = {"MINIMAL", "LOW", "MEDIUM", "HIGH"}
LEVELS = {
    "gemini-3.8-flash": {"LOW", "MEDIUM", "HIGH"},
    "gemini-3.7-flash": {"LOW", "MEDIUM", "HIGH"},
    "gemini-3.6-flash": FOUR,
    "gemini-3.5-flash": FOUR,
    "gemini-3.5-flash-lite": FOUR,
    "gemini-3.1-pro-preview": {"LOW", "MEDIUM", "HIGH"},
    "gemini-3.1-flash-lite": FOUR,
}
# From these pages: the least and the largest budget of each Gemini 2.5 model, and whether 0 turns thinking off.
BUDGETS = {
    "gemini-2.5-pro": (128, 32768, False),
    "gemini-2.5-flash": (0, 24576, True),
    "gemini-2.5-flash-lite": (512, 24576, True),
}
SIGNED, DUMMY = base64.b64encode(SIGNATURE.encode()).decode(), "skip_thought_signature_validator"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")


def generation(model):
    found = re.match(r"gemini-(\d+(?:\.\d+)?)", model)
    return float(found.group(1)) if found else 0


class Google:
    api = "gemini"
    # `FunctionCallingConfig.Mode`.
    modes = {"AUTO", "ANY", "NONE", "VALIDATED"}
    key = "google-test-key"
    path = re.compile(r"/v1beta/models/([^:?]+):(generateContent|streamGenerateContent\?alt=sse)")

    def __init__(self):
        self.client = genai.Client(api_key="none")._api_client
        self.write_body = models._GenerateContentParameters_to_mldev

    def takes(self, path):
        return self.path.fullmatch(path) is not None

    def check_key(self, request):
        need(request.header("x-goog-api-key") == self.key, "no key")

    def read(self, request):
        self.check_key(request)
        model, method = self.path.fullmatch(request.path).groups()
        body = load(request.body)
        config = {
            **body.get("generationConfig", {}),
            **{name: body[wire] for wire, name in BESIDE.items() if wire in body},
        }
        unknown = set(body) - {"contents", "generationConfig", *BESIDE}
        need(not unknown, f"Invalid JSON payload received. Unknown name {unknown}")
        try:
            contents = [
                types.Content.model_validate_json(json.dumps(content), strict=False) for content in body["contents"]
            ]
            parsed = types.GenerateContentConfig.model_validate_json(json.dumps(config))
            asked = types._GenerateContentParameters(model=model, contents=contents, config=parsed)
            written = self.write_body(self.client, asked)
        except pydantic.ValidationError as fault:
            raise Invalid(words(fault)) from None
        except ValueError as fault:
            raise Invalid(str(fault)) from None
        written = {name: value for name, value in written.items() if name != "_url" and value != {}}
        same(plain(written), body, "")
        check_contents(body["contents"], model)
        check_config(body, model)
        return self.asked(body, model, "stream" in method)

    def asked(self, body, model, streamed):
        names = [tool["name"] for tools in body.get("tools", []) for tool in tools.get("functionDeclarations", [])]
        calling = body.get("toolConfig", {}).get("functionCallingConfig", {})
        allowed = calling.get("allowedFunctionNames", names)
        need(set(allowed) <= set(names), f"allowedFunctionNames: {allowed} is more than {names}")
        need(calling.get("mode", "AUTO") in self.modes, f"mode: {calling.get('mode')} is not in this version of the API")
        need(
            "allowedFunctionNames" not in calling or calling["mode"] in ("ANY", "VALIDATED"),
            "allowedFunctionNames needs mode ANY",
        )
        config = body.get("generationConfig", {})
        return Asked(
            model=model,
            stream=streamed,
            tools=[] if calling.get("mode") == "NONE" else allowed,
            forced=allowed if calling.get("mode") == "ANY" else [],
            question=any(is_question(part.get("text")) for part in body["contents"][-1]["parts"]),
            json=config.get("responseMimeType") == "application/json"
            or "single JSON" in str(body.get("systemInstruction", "")),
            thinks=config.get("thinkingConfig", {}).get("includeThoughts", False),
            n=config.get("candidateCount", 1),
        )

    def refuse(self, message):
        return Answer({"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}, 400)

    def write(self, asked):
        said = reply_to(asked)
        signature = SIGNATURE.encode()
        parts = [types.Part(text=said.thought, thought=True)] if said.thought else []
        if said.text:
            parts.append(types.Part(text=said.text))
        for at, name in enumerate(said.calls):
            call = types.FunctionCall(
                name=name, args=ARGUMENTS, id=f"call-{at}" if generation(asked.model) >= 3 else None
            )
            # "Thought signatures": of calls at once, the first has one.
            parts.append(types.Part(function_call=call, thought_signature=signature if at == 0 else None))
        return self.say(asked, parts)

    def say(self, asked, parts):
        """An answer of these parts."""
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=PROMPT_TOKENS,
            candidates_token_count=ANSWER_TOKENS,
            total_token_count=PROMPT_TOKENS + ANSWER_TOKENS,
        )

        def response(parts, last):
            candidates = [
                types.Candidate(
                    index=index,
                    content=types.Content(role="model", parts=parts),
                    finish_reason=types.FinishReason.STOP if last else None,
                )
                for index in range(asked.n)
            ]
            answer = types.GenerateContentResponse(
                candidates=candidates,
                usage_metadata=usage if last else None,
                model_version=asked.model,
                response_id="r1",
            )
            return answer.model_dump_json(by_alias=True, exclude_none=True).encode()

        if not asked.stream:
            return Answer(response(parts, True))
        bodies = [response([part], at == len(parts) - 1) for at, part in enumerate(parts)]
        return stream(sse(*bodies), "text/event-stream")


class Vertex(Google):
    api = "vertex"
    # Of v1: Google.Cloud.AIPlatform.V1 3.50.0, read 2026-11-22. v1beta1 has VALIDATED, too.
    modes = {"AUTO", "ANY", "NONE"}
    key = "vertex-test-token"
    path = re.compile(
        r"/v1/projects/a-project/locations/europe-west4/publishers/google/models/"
        r"([^:?]+):(generateContent|streamGenerateContent\?alt=sse)"
    )

    def __init__(self):
        client = genai.Client(
            vertexai=True, project="a-project", location="europe-west4", credentials=AnonymousCredentials()
        )
        self.client = client._api_client
        self.write_body = models._GenerateContentParameters_to_vertex

    def check_key(self, request):
        need(request.header("authorization") == "Bearer " + self.key, "no token")


def plain(value):
    """The package's request as it stands on the wire."""
    if isinstance(value, pydantic.BaseModel):
        return json.loads(value.model_dump_json(by_alias=True, exclude_none=True))
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return getattr(value, "value", value)


def same(theirs, ours, where):
    """The package writes what came; its enums are in capitals, and its bytes may be of either base64 alphabet."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        need(set(theirs) == set(ours), f"{where}: the package writes {sorted(theirs)}, the gateway {sorted(ours)}")
        for name in theirs:
            same(theirs[name], ours[name], f"{where}.{name}")
    elif isinstance(theirs, list) and isinstance(ours, list):
        need(len(theirs) == len(ours), f"{where}: other lengths")
        for at, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            same(one, other, f"{where}.{at}")
    elif isinstance(theirs, str) and isinstance(ours, str):
        letters = str.maketrans("-_", "+/")
        equal = theirs.translate(letters).rstrip("=") == ours.translate(letters).rstrip("=")
        need(equal or theirs.upper() == ours.upper(), f"{where}: the package writes {theirs!r}, the gateway {ours!r}")
    else:
        need(theirs == ours, f"{where}: the package writes {theirs!r}, the gateway {ours!r}")


def check_contents(contents, model):
    """The pages "Function calling" and "Thought signatures" at ai.google.dev/gemini-api/docs."""
    need(contents and contents[0]["role"] == "user", "contents: the first turn is the user's")
    need(all(content["role"] in ("user", "model") for content in contents), "Please use a valid role: user, model.")
    need(all(content["parts"] for content in contents), "contents: parts must not be empty")
    turn = max(
        (
            at
            for at, content in enumerate(contents)
            if content["role"] == "user" and any("text" in part for part in content["parts"])
        ),
        default=0,
    )
    for at, content in enumerate(contents):
        calls = [part for part in content["parts"] if "functionCall" in part]
        if not calls:
            continue
        need(content["role"] == "model", "functionCall: only of the model's turns")
        after = contents[at + 1]["parts"] if at + 1 < len(contents) else []
        results = [part["functionResponse"] for part in after if "functionResponse" in part]
        need(
            len(results) == len(calls),
            "Please ensure that the number of function response parts is equal to the number of function call parts",
        )
        need(
            [call["functionCall"]["name"] for call in calls] == [result["name"] for result in results],
            "functionResponse: other names",
        )
        for part in content["parts"]:
            # "Thought signatures": as it was received, or the word for a call that another model made.
            need(part.get("thoughtSignature", DUMMY) in (SIGNED, DUMMY), "Corrupted thought signature.")
        if generation(model) >= 3 and "image" not in model and at > turn:
            need("thoughtSignature" in calls[0], "Function call is missing a thought_signature in functionCall parts.")


def check_config(body, model):
    config = body.get("generationConfig", {})
    names = [tool["name"] for tools in body.get("tools", []) for tool in tools.get("functionDeclarations", [])]
    need(all(NAME.fullmatch(name) for name in names), "functionDeclarations: invalid function name")
    # `FunctionDeclaration`, `GenerateContentConfig`: the two kinds of schema exclude each other.
    for tools in body.get("tools", []):
        for tool in tools.get("functionDeclarations", []):
            need(not {"parameters", "parametersJsonSchema"} <= set(tool), "parameters beside parametersJsonSchema")
    need(not {"responseSchema", "responseJsonSchema"} <= set(config), "responseSchema beside responseJsonSchema")
    if {"responseSchema", "responseJsonSchema"} & set(config):
        need(config.get("responseMimeType") == "application/json", "response_mime_type must be set with a schema")
    # "Structured outputs with tools": Gemini 3 and later.
    if names and generation(model) < 3:
        need(
            "responseMimeType" not in config,
            "Function calling with a response mime type: 'application/json' is unsupported",
        )
    # `GenerateContentConfig.stop_sequences`; the API: at most 5.
    need(len(config.get("stopSequences", [])) <= 5, "stopSequences: at most 5")
    need(0 <= config.get("temperature", 0) <= 2, "temperature: from 0 to 2")
    thinking = config.get("thinkingConfig", {})
    need(
        not {"thinkingBudget", "thinkingLevel"} <= set(thinking),
        "You can only set only one of thinking budget and thinking level.",
    )
    if "thinkingLevel" in thinking:
        need(generation(model) >= 3, "Thinking level is not supported for this model.")
        levels = LEVELS.get(model, {"MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH"})
        need(
            thinking["thinkingLevel"] in levels,
            f"thinkingLevel: {thinking['thinkingLevel']} is not one of {sorted(levels)}",
        )
    if "thinkingBudget" in thinking and model in BUDGETS:
        least, most, off = BUDGETS[model]
        budget = thinking["thinkingBudget"]
        need(budget == -1 or (off and budget == 0) or least <= budget <= most, f"thinkingBudget: {budget}")
