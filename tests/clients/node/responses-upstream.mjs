// A provider with a Responses API that keeps state as OpenAI does: it stores what `store` does not forbid, finds items and
// responses by their ids, and refuses what OpenAI refuses, in OpenAI's words.

import { createServer } from "node:http";
import { listen } from "./agents.mjs";

/** The beginnings of the ids of items. */
const PREFIXES = { message: "msg_", function_call: "fc_", reasoning: "rs_" };
/** "Models", platform.openai.com: these reason, and only these have encrypted content. */
const REASONS = /^(o\d|gpt-5)/;
const USAGE = {
  input_tokens: 1000,
  input_tokens_details: { cached_tokens: 0 },
  output_tokens: 50,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 1050,
};

class Refusal extends Error {
  constructor(status, message, code = null) {
    super(message);
    this.status = status;
    this.body = { error: { message, type: "invalid_request_error", param: "input", code } };
  }
}

/**
 * Starts the provider. `script(items)` says for the conversation so far `{ text, calls: [[name, arguments]] }`. `requests` has
 * the bodies, `conversations` the items that each of them stands for, and `faults` what was refused.
 */
export async function responsesUpstream(script) {
  const keeper = new Keeper(script);
  const server = createServer(async (incoming, response) => {
    const parts = [];
    for await (const part of incoming) parts.push(part);
    try {
      if (incoming.method !== "POST" || incoming.url !== "/v1/responses") {
        throw new Refusal(404, `Invalid URL (${incoming.method} ${incoming.url})`);
      }
      const body = JSON.parse(Buffer.concat(parts));
      const answer = keeper.answer(body);
      if (body.stream) {
        response.writeHead(200, { "content-type": "text/event-stream" });
        for (const event of events(answer)) response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
        return response.end();
      }
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
    } catch (error) {
      keeper.faults.push(error.message);
      const { status = 500, body = { error: { message: error.message, type: "server_error" } } } = error;
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    }
  });
  return Object.assign(keeper, await listen(server));
}

class Keeper {
  requests = [];
  conversations = [];
  faults = [];
  /** What is stored, by id: items, and the whole conversation behind each response. */
  #items = new Map();
  #responses = new Map();
  /** The reasoning that each item followed, and the encrypted contents that this provider wrote, by id. */
  #thoughts = new Map();
  #encrypted = new Map();
  #made = 0;

  constructor(script) {
    this.script = script;
  }

  answer(body) {
    this.requests.push(body);
    const reasons = REASONS.test(body.model);
    const encrypts = body.include?.includes("reasoning.encrypted_content") ?? false;
    if (encrypts && !reasons) throw new Refusal(400, "Encrypted content is not supported with this model.");
    if (body.reasoning && !reasons) throw new Refusal(400, "Unsupported parameter: 'reasoning.effort' is not supported with this model.");
    const input = typeof body.input === "string" ? [{ role: "user", content: body.input }] : body.input;
    const conversation = [...this.#previous(body.previous_response_id), ...input.map((item) => this.#resolved(item))];
    this.#check(conversation);
    this.conversations.push(conversation);
    const output = this.#output(this.script(conversation), reasons, encrypts);
    const id = this.#id("resp_");
    if (body.store !== false) {
      for (const item of [...conversation, ...output]) if (item.id) this.#items.set(item.id, item);
      this.#responses.set(id, [...conversation, ...output]);
    }
    return {
      id,
      object: "response",
      created_at: 1,
      status: "completed",
      error: null,
      incomplete_details: null,
      instructions: body.instructions ?? null,
      metadata: {},
      model: body.model,
      output,
      parallel_tool_calls: true,
      previous_response_id: body.previous_response_id ?? null,
      store: body.store !== false,
      temperature: 1,
      tool_choice: "auto",
      tools: body.tools ?? [],
      top_p: 1,
      usage: USAGE,
    };
  }

  #id(prefix) {
    return `${prefix}${(++this.#made).toString(16).padStart(48, "0")}`;
  }

  #previous(id) {
    if (id == null) return [];
    const earlier = this.#responses.get(id);
    if (!earlier) throw new Refusal(400, `Previous response with id '${id}' not found.`, "previous_response_not_found");
    return earlier;
  }

  /** The item that an item of the input stands for. */
  #resolved(item) {
    const stored = this.#items.get(item.id);
    const missing = () => {
      const why = "Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.";
      return new Refusal(404, `Item with id '${item.id}' not found. ${why}`);
    };
    if (item.type === "item_reference") {
      if (!stored) throw missing();
      return stored;
    }
    const type = item.type ?? "message";
    const prefix = PREFIXES[type];
    if (item.id != null && prefix && !item.id.startsWith(prefix)) {
      throw new Refusal(400, `Invalid 'input.id': '${item.id}'. Expected an ID that begins with '${prefix.slice(0, -1)}'.`);
    }
    if (type !== "reasoning") return item;
    if (item.encrypted_content == null) {
      if (!stored) throw missing();
      return stored;
    }
    if (this.#encrypted.get(item.encrypted_content) !== item.id) {
      throw new Refusal(400, "The encrypted content could not be verified.", "invalid_encrypted_content");
    }
    return item;
  }

  /** The pages "Conversation state", "Reasoning models" and "Function calling", platform.openai.com/docs/guides. */
  #check(conversation) {
    const seen = new Set();
    const calls = new Set();
    for (const [at, item] of conversation.entries()) {
      if (item.id != null && seen.has(item.id)) {
        throw new Refusal(400, `Duplicate item found with id ${item.id}. Remove duplicate items from your input and try again.`);
      }
      seen.add(item.id);
      const next = conversation[at + 1];
      if (item.type === "reasoning" && !(next && (next.role === "assistant" || next.type === "function_call"))) {
        throw new Refusal(400, `Item '${item.id}' of type 'reasoning' was provided without its required following item.`);
      }
      const thought = this.#thoughts.get(item.id);
      if (thought && conversation[at - 1]?.id !== thought) {
        const type = item.type ?? "message";
        throw new Refusal(400, `Item '${item.id}' of type '${type}' was provided without its required 'reasoning' item: '${thought}'.`);
      }
      if (item.type === "function_call") calls.add(item.call_id);
      if (item.type === "function_call_output" && !calls.delete(item.call_id)) {
        throw new Refusal(400, `No tool call found for function call output with call_id ${item.call_id}.`);
      }
    }
    for (const call of calls) throw new Refusal(400, `No tool output found for function call ${call}.`);
  }

  /** A thought before the first item, as reasoning models give it, a text and the calls. */
  #output({ text, calls = [] }, reasons, encrypts) {
    const output = [];
    if (text) {
      const content = [{ type: "output_text", text, annotations: [], logprobs: [] }];
      output.push({ id: this.#id("msg_"), type: "message", status: "completed", role: "assistant", content });
    }
    for (const [name, args] of calls) {
      const call = { call_id: this.#id("call_"), name, arguments: JSON.stringify(args), status: "completed" };
      output.push({ id: this.#id("fc_"), type: "function_call", ...call });
    }
    if (reasons) {
      const thought = { id: this.#id("rs_"), type: "reasoning", summary: [{ type: "summary_text", text: "I think." }] };
      if (encrypts) {
        thought.encrypted_content = Buffer.from(`the content of ${thought.id}`).toString("base64");
        this.#encrypted.set(thought.encrypted_content, thought.id);
      }
      this.#thoughts.set(output[0].id, thought.id);
      output.unshift(thought);
    }
    return output;
  }
}

const pieces = (text) => text.match(/.{1,7}/gsu) ?? [];

/** The events of an item of each type between the item's first and its last. */
const INNER = {
  *message({ id, content: [part] }, place) {
    const at = { item_id: id, ...place, content_index: 0 };
    yield { type: "response.content_part.added", ...at, part: { ...part, text: "" } };
    for (const delta of pieces(part.text)) yield { type: "response.output_text.delta", ...at, delta, logprobs: [] };
    yield { type: "response.output_text.done", ...at, text: part.text, logprobs: [] };
    yield { type: "response.content_part.done", ...at, part };
  },
  *function_call({ id, arguments: args }, place) {
    const at = { item_id: id, ...place };
    for (const delta of pieces(args)) yield { type: "response.function_call_arguments.delta", ...at, delta };
    yield { type: "response.function_call_arguments.done", ...at, arguments: args };
  },
  *reasoning({ id, summary: [part] }, place) {
    const at = { item_id: id, ...place, summary_index: 0 };
    yield { type: "response.reasoning_summary_part.added", ...at, part: { ...part, text: "" } };
    for (const delta of pieces(part.text)) yield { type: "response.reasoning_summary_text.delta", ...at, delta };
    yield { type: "response.reasoning_summary_text.done", ...at, text: part.text };
    yield { type: "response.reasoning_summary_part.done", ...at, part };
  },
};
/** An item as it begins. */
const BEGUN = { message: { content: [] }, function_call: { arguments: "" }, reasoning: { summary: [] } };

/** A response as OpenAI streams it. */
function events(response) {
  const begun = { ...response, status: "in_progress", output: [], usage: null };
  const all = [
    { type: "response.created", response: begun },
    { type: "response.in_progress", response: begun },
  ];
  for (const [output_index, item] of response.output.entries()) {
    const place = { output_index };
    const first = { ...item, ...BEGUN[item.type], ...(item.status && { status: "in_progress" }) };
    all.push({ type: "response.output_item.added", ...place, item: first });
    all.push(...INNER[item.type](item, place));
    all.push({ type: "response.output_item.done", ...place, item });
  }
  all.push({ type: "response.completed", response });
  return all.map((event, sequence_number) => ({ ...event, sequence_number }));
}
