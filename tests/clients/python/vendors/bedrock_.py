"""Amazon Bedrock: botocore's model of `bedrock-runtime`. Its `ParamValidator` knows members, types and lower bounds; the
patterns, upper bounds and enumerations of the same model are checked here."""

import base64
import re
from urllib.parse import unquote

import botocore.session
import eventstream
from botocore.validate import ParamValidator
from upstreams import Answer, stream

from . import anthropic_
from .common import (
    ANSWER_TOKENS,
    ARGUMENTS,
    PROMPT_TOKENS,
    SIGNATURE,
    THOUGHT,
    Asked,
    Invalid,
    is_question,
    load,
    need,
    reply_to,
)

SERVICE = botocore.session.Session().get_service_model("bedrock-runtime")
PATH = re.compile(r"/model/([^/]+)/(converse|converse-stream)")


def shape(operation, kind="input"):
    return getattr(SERVICE.operation_model(operation), kind + "_shape")


def valid(value, of):
    report = ParamValidator().validate(value, of)
    if report.has_errors():
        raise Invalid(report.generate_report())
    bounds(value, of, "")
    return value


def bounds(value, of, where):
    meta = of.metadata
    if of.type_name == "structure" and not of.is_document_type:
        for name, inner in value.items():
            bounds(inner, of.members[name], f"{where}.{name}")
    elif of.type_name == "list":
        for at, inner in enumerate(value):
            bounds(inner, of.member, f"{where}.{at}")
    size = len(value) if of.type_name in ("string", "list", "blob") else value
    if "max" in meta:
        need(size <= meta["max"], f"{where}: {size} is above {meta['max']}")
    if "min" in meta:
        need(size >= meta["min"], f"{where}: {size} is below {meta['min']}")
    if of.type_name == "string":
        need(
            "pattern" not in meta or re.fullmatch(meta["pattern"], value),
            f"{where}: {value!r} is not like {meta.get('pattern')}",
        )
        need(not of.enum or value in of.enum, f"{where}: {value!r} is none of {of.enum}")


class Bedrock:
    api = "bedrock"
    key = "a-bedrock-key"

    def takes(self, path):
        return PATH.fullmatch(path) is not None

    def read(self, request):
        need(request.header("authorization") == "Bearer " + self.key, "no key")
        model, method = PATH.fullmatch(request.path).groups()
        model = unquote(model)
        body = load(request.body)
        operation = {"converse": "Converse", "converse-stream": "ConverseStream"}[method]
        valid({"modelId": model, **body}, shape(operation))
        check(body, model)
        return self.asked(body, model, method == "converse-stream")

    def asked(self, body, model, streamed):
        config = body.get("toolConfig", {})
        names = [tool["toolSpec"]["name"] for tool in config.get("tools", []) if "toolSpec" in tool]
        choice = config.get("toolChoice", {})
        forced = names if "any" in choice else [choice["tool"]["name"]] if "tool" in choice else []
        need(set(forced) <= set(names), f"toolChoice: {forced} is none of {names}")
        fields = body.get("additionalModelRequestFields", {})
        thinking = fields.get("thinking", {}).get("type") or fields.get("reasoningConfig", {}).get("type")
        return Asked(
            model=model,
            stream=streamed,
            tools=names,
            forced=forced,
            question=any(is_question(block.get("text")) for block in body["messages"][-1]["content"]),
            json="outputConfig" in body or "JSON" in str(body.get("system", "")),
            thinks=thinking in ("enabled", "adaptive"),
        )

    def refuse(self, message):
        return Answer(
            {"message": message}, 400, {"content-type": "application/json", "x-amzn-errortype": "ValidationException"}
        )

    def write(self, asked):
        said = reply_to(asked)
        blocks = []
        if said.thought:
            # Claude alone signs.
            signed = {"signature": SIGNATURE} if "anthropic" in asked.model else {}
            blocks.append({"reasoningContent": {"reasoningText": {"text": said.thought, **signed}}})
        if said.text:
            blocks.append({"text": said.text})
        for at, name in enumerate(said.calls):
            blocks.append({"toolUse": {"toolUseId": f"tooluse_{at}", "name": name, "input": ARGUMENTS}})
        return self.say(asked, blocks)

    def say(self, asked, blocks):
        """An answer of these blocks."""
        stop = "tool_use" if any("toolUse" in block for block in blocks) else "end_turn"
        usage = {
            "inputTokens": PROMPT_TOKENS,
            "outputTokens": ANSWER_TOKENS,
            "totalTokens": PROMPT_TOKENS + ANSWER_TOKENS,
        }
        metrics = {"latencyMs": 12}
        if not asked.stream:
            message = {"role": "assistant", "content": blocks}
            whole = {"output": {"message": message}, "stopReason": stop, "usage": usage, "metrics": metrics}
            return Answer(valid(whole, shape("Converse", "output")))
        frames = [event("messageStart", role="assistant")]
        for index, block in enumerate(blocks):
            frames += block_events(index, block)
        frames += [event("messageStop", stopReason=stop), event("metadata", usage=usage, metrics=metrics)]
        return stream(frames, eventstream.CONTENT_TYPE)


def check(body, model):
    """The page "Converse" in Amazon's API reference, and what the models' own pages demand."""
    messages = body["messages"]
    need(messages[0]["role"] == "user", "A conversation must start with a user message.")
    roles = [message["role"] for message in messages]
    need(all(one != other for one, other in zip(roles, roles[1:], strict=False)), "messages: roles must alternate")
    tools = "toolConfig" in body
    for at, message in enumerate(messages):
        need(message["content"], f"messages.{at}: the content field is empty")
        for block in message["content"]:
            need(
                "text" not in block or block["text"].strip(),
                f"The text field in the ContentBlock object at messages.{at} is blank.",
            )
            need(
                tools or not {"toolUse", "toolResult"} & set(block),
                "The toolConfig field must be defined when using toolUse and toolResult",
            )
            for media in ("image", "document", "audio"):
                if media in block:
                    base64.b64decode(block[media]["source"]["bytes"], validate=True)
            if "reasoningContent" in block and "anthropic" in model:
                thought = block["reasoningContent"]["reasoningText"]
                unchanged = (thought["text"], thought["signature"]) == (THOUGHT, SIGNATURE)
                need(unchanged, f"messages.{at}: Invalid `signature` in `thinking` block")
        calls = [block["toolUse"]["toolUseId"] for block in message["content"] if "toolUse" in block]
        if calls:
            after = messages[at + 1]["content"] if at + 1 < len(messages) else []
            results = [block["toolResult"]["toolUseId"] for block in after if "toolResult" in block]
            need(sorted(calls) == sorted(results), f"messages.{at}: Expected toolResult blocks for {calls}")
    claude = re.search(r"anthropic\.(claude-.*)", model)
    fields = body.get("additionalModelRequestFields", {})
    config = body.get("inferenceConfig", {})
    choice = body.get("toolConfig", {}).get("toolChoice", {})
    if claude:
        # Claude's own rules hold there as well ("Anthropic Claude Messages API", Amazon Bedrock user guide).
        sampled = {
            wire: config[name] for name, wire in (("temperature", "temperature"), ("topP", "top_p")) if name in config
        }
        forced = "any" in choice or "tool" in choice
        last = messages[-1]
        anthropic_.check_model(
            {
                "model": claude.group(1),
                "max_tokens": config.get("maxTokens", 4096),
                "thinking": fields.get("thinking", {}),
                "tool_choice": {"type": "any"} if forced else {},
                "output_config": {
                    **fields.get("output_config", {}),
                    **({"effort": body["outputConfig"]["effort"]} if "effort" in body.get("outputConfig", {}) else {}),
                },
                "messages": [
                    {"role": "user", "content": "-"},
                    {"role": last["role"], "content": last["content"][-1].get("text", "-")},
                ],
            },
            sampled,
        )
        need(
            set(fields) <= {"thinking", "output_config", "anthropic_beta", "top_k", "tool_choice"},
            f"extraneous key {sorted(fields)}",
        )
    if model.startswith("amazon.nova"):
        # "Using extended thinking", Amazon Nova 2 user guide: low, medium and high; high without the sampling parameters.
        reasoning = fields.get("reasoningConfig", {})
        need(not reasoning or "nova-2" in model, "reasoningConfig: Nova 2 alone")
        need(
            reasoning.get("maxReasoningEffort", "low") in ("low", "medium", "high"), f"maxReasoningEffort: {reasoning}"
        )
        if reasoning.get("maxReasoningEffort") == "high":
            need(
                not {"temperature", "topP", "maxTokens"} & set(config),
                "high effort: temperature, topP and maxTokens must be unset",
            )
        need(set(fields) <= {"reasoningConfig", "inferenceConfig"}, f"extraneous key {sorted(fields)}")
    if model.startswith("meta.llama"):
        # "Troubleshooting" of Converse, Amazon Bedrock user guide, and `ToolChoice`: neither a prefill nor a tool that is forced.
        need(
            messages[-1]["role"] == "user",
            "This model requires the last turn in the conversation to be a user message.",
        )
        # `auto` is taken: langchain-ai/langchain-aws#620, strands-agents/harness-sdk#1981.
        need(
            set(choice) <= {"auto"},
            f"This model doesn't support the toolConfig.toolChoice.{''.join(choice)} field. Remove it and try again.",
        )


def event(kind, **payload):
    """An event that the service model knows."""
    valid(payload, shape("ConverseStream", "output").members["stream"].members[kind])
    return eventstream.event(kind, **payload)


def block_events(index, block):
    if "toolUse" in block:
        call = block["toolUse"]
        start = {"toolUse": {"toolUseId": call["toolUseId"], "name": call["name"]}}
        yield event("contentBlockStart", contentBlockIndex=index, start=start)
        deltas = [{"toolUse": {"input": '{"city": "Zür'}}, {"toolUse": {"input": 'ich", "days": 2}'}}]
    elif "reasoningContent" in block:
        thought = block["reasoningContent"]["reasoningText"]
        deltas = [{"reasoningContent": {name: value}} for name, value in thought.items()]
    else:
        half = len(block["text"]) // 2
        deltas = [{"text": block["text"][:half]}, {"text": block["text"][half:]}]
    for delta in deltas:
        yield event("contentBlockDelta", contentBlockIndex=index, delta=delta)
    yield event("contentBlockStop", contentBlockIndex=index)
