import type { Surface } from "./draft";
import type { ServerEvent } from "./sse";

/** A tool that the model wants to be called. */
export interface ToolUse {
  name: string;
  /** JSON, as far as it has arrived. */
  arguments: string;
}

/** What an answer holds so far. */
export interface Answer {
  text: string;
  reasoning: string;
  tools: Record<string, ToolUse>;
  promptTokens: number | null;
  completionTokens: number | null;
  /** The cost that the gateway counted. */
  costUsd: number | null;
  /** The model and the provider that answered. */
  answeredBy: string | null;
  cacheHit: boolean;
  warnings: readonly string[];
  finish: string | null;
  /** The error inside a stream. */
  error: { code: string; message: string } | null;
}

export const NO_ANSWER: Answer = {
  text: "",
  reasoning: "",
  tools: {},
  promptTokens: null,
  completionTokens: null,
  costUsd: null,
  answeredBy: null,
  cacheHit: false,
  warnings: [],
  finish: null,
  error: null,
};

type Json = Record<string, unknown>;

function at(value: unknown, ...path: (string | number)[]): unknown {
  let found = value;
  for (const step of path)
    found = typeof found === "object" && found !== null ? Reflect.get(found, step) : undefined;
  return found;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function number(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

function withTool(answer: Answer, id: string, name: string, piece: string): Answer {
  const before = answer.tools[id] ?? { name: "", arguments: "" };
  const tool = { name: name || before.name, arguments: before.arguments + piece };
  return { ...answer, tools: { ...answer.tools, [id]: tool } };
}

/** Reads `usage` of any surface and `gateway`. */
function withFigures(answer: Answer, usage: unknown, gateway: unknown): Answer {
  const warnings = at(gateway, "warnings");
  const known = Array.isArray(warnings) ? warnings.map(String) : answer.warnings;
  const isUnpriced = known.includes("price_unknown");
  const costUsd = number(at(usage, "cost_usd")) ?? answer.costUsd;
  const model = text(at(gateway, "model_used"));
  return {
    ...answer,
    promptTokens:
      number(at(usage, "prompt_tokens")) ?? number(at(usage, "input_tokens")) ?? answer.promptTokens,
    completionTokens:
      number(at(usage, "completion_tokens")) ?? number(at(usage, "output_tokens")) ?? answer.completionTokens,
    costUsd: isUnpriced ? null : costUsd,
    answeredBy: model || answer.answeredBy,
    cacheHit: at(gateway, "cache_hit") === true || answer.cacheHit,
    warnings: known,
  };
}

/** An error of any surface. */
function errorIn(value: unknown): Answer["error"] {
  const message = text(at(value, "message"));
  if (message === "") return null;
  return { message, code: text(at(value, "code")) || text(at(value, "type")) };
}

function chat(answer: Answer, data: Json): Answer {
  let next = withFigures(answer, data.usage, data.gateway);
  const delta = at(data, "choices", 0, "delta");
  const calls = at(delta, "tool_calls");
  for (const call of Array.isArray(calls) ? calls : []) {
    const piece = text(at(call, "function", "arguments"));
    next = withTool(next, String(at(call, "index") ?? 0), text(at(call, "function", "name")), piece);
  }
  return {
    ...next,
    text: next.text + text(at(delta, "content")) + text(at(delta, "refusal")),
    reasoning: next.reasoning + (text(at(delta, "reasoning_content")) || text(at(delta, "reasoning"))),
    finish: text(at(data, "choices", 0, "finish_reason")) || next.finish,
  };
}

function responses(answer: Answer, data: Json): Answer {
  const place = String(data.output_index ?? 0);
  switch (data.type) {
    case "response.output_text.delta":
    case "response.refusal.delta":
      return { ...answer, text: answer.text + text(data.delta) };
    case "response.reasoning_text.delta":
    case "response.reasoning_summary_text.delta":
      return { ...answer, reasoning: answer.reasoning + text(data.delta) };
    case "response.output_item.added":
      return at(data, "item", "type") === "function_call"
        ? withTool(answer, place, text(at(data, "item", "name")), "")
        : answer;
    case "response.function_call_arguments.delta":
      return withTool(answer, place, "", text(data.delta));
    case "response.completed":
    case "response.incomplete":
    case "response.failed": {
      const next = withFigures(answer, at(data, "response", "usage"), at(data, "response", "gateway"));
      return {
        ...next,
        error: errorIn(at(data, "response", "error")),
        finish: text(at(data, "response", "status")) || null,
      };
    }
    default:
      return answer;
  }
}

function messages(answer: Answer, data: Json): Answer {
  const place = String(data.index ?? 0);
  switch (data.type) {
    case "message_start":
      return withFigures(answer, at(data, "message", "usage"), at(data, "message", "gateway"));
    case "content_block_start":
      return at(data, "content_block", "type") === "tool_use"
        ? withTool(answer, place, text(at(data, "content_block", "name")), "")
        : answer;
    case "content_block_delta":
      if (at(data, "delta", "type") === "input_json_delta") {
        return withTool(answer, place, "", text(at(data, "delta", "partial_json")));
      }
      return {
        ...answer,
        text: answer.text + text(at(data, "delta", "text")),
        reasoning: answer.reasoning + text(at(data, "delta", "thinking")),
      };
    case "message_delta":
      return {
        ...withFigures(answer, data.usage, data.gateway),
        finish: text(at(data, "delta", "stop_reason")) || answer.finish,
      };
    default:
      return answer;
  }
}

const READERS = { chat, responses, messages };

/** The answer after one more event of its stream. */
export function withEvent(surface: Surface, answer: Answer, event: ServerEvent): Answer {
  if (event.data === "[DONE]") return answer;
  let data: unknown;
  try {
    data = JSON.parse(event.data);
  } catch {
    return answer;
  }
  if (typeof data !== "object" || data === null) return answer;
  const error = errorIn(at(data, "error"));
  if (error) return { ...answer, error };
  return READERS[surface](answer, data as Json);
}

/** Whether something of the answer itself has arrived. */
export function hasBegun(answer: Answer): boolean {
  return answer.text !== "" || answer.reasoning !== "" || Object.keys(answer.tools).length > 0;
}
