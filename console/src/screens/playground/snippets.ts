import { shellWord } from "../requests/curl";
import { SURFACE_PATHS, type Surface } from "./draft";

export const LANGUAGES = ["curl", "python", "typescript"] as const;
export type Language = (typeof LANGUAGES)[number];

type Json = Record<string, unknown>;

/** JSON as a Python literal. */
export function python(value: unknown, indent = ""): string {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const inner = `${indent}    `;
  const items = Array.isArray(value)
    ? value.map((item) => python(item, inner))
    : Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${python(item, inner)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  if (items.length === 0) return `${open}${close}`;
  return `${open}\n${items.map((item) => `${inner}${item},\n`).join("")}${indent}${close}`;
}

/** Members that the SDKs know as arguments; the others go into `extra_body`. */
const GATEWAY_MEMBERS = new Set(["routing", "cache"]);

function withoutStream(body: Json): Json {
  const { stream: _stream, stream_options: _options, ...rest } = body;
  return rest;
}

function pythonArguments(body: Json): string {
  const known: string[] = [];
  const extra: Json = {};
  for (const [name, value] of Object.entries(withoutStream(body))) {
    if (GATEWAY_MEMBERS.has(name)) extra[name] = value;
    else known.push(`    ${name}=${python(value, "    ")},\n`);
  }
  if (Object.keys(extra).length > 0) known.push(`    extra_body=${python(extra, "    ")},\n`);
  return known.join("");
}

const PYTHON: Record<Surface, (base: string, body: Json) => string> = {
  chat: (base, body) => `import os

from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(base)}, api_key=os.environ["KEY"])
answer = client.chat.completions.create(
${pythonArguments(body)})
print(answer.choices[0].message.content)
`,
  responses: (base, body) => `import os

from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(base)}, api_key=os.environ["KEY"])
answer = client.responses.create(
${pythonArguments(body)})
print(answer.output_text)
`,
  messages: (base, body) => `import os

from anthropic import Anthropic

client = Anthropic(base_url=${JSON.stringify(base.replace(/\/v1$/, ""))}, api_key=os.environ["KEY"])
answer = client.messages.create(
${pythonArguments(body)})
print(answer.content[0].text)
`,
};

function javascript(body: Json): string {
  return JSON.stringify(withoutStream(body), null, 2);
}

const TYPESCRIPT: Record<Surface, (base: string, body: Json) => string> = {
  chat: (base, body) => `import OpenAI from "openai";

const client = new OpenAI({ baseURL: ${JSON.stringify(base)}, apiKey: process.env.KEY });
const answer = await client.chat.completions.create(${javascript(body)});
console.log(answer.choices[0].message.content);
`,
  responses: (base, body) => `import OpenAI from "openai";

const client = new OpenAI({ baseURL: ${JSON.stringify(base)}, apiKey: process.env.KEY });
const answer = await client.responses.create(${javascript(body)});
console.log(answer.output_text);
`,
  messages: (base, body) => `import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({ baseURL: ${JSON.stringify(base.replace(/\/v1$/, ""))}, apiKey: process.env.KEY });
const answer = await client.messages.create(${javascript(body)});
console.log(answer.content);
`,
};

/** A request as a program. `base` is the base URL of the API and ends in `/v1`; the key stands in `KEY`. */
export function codeFor(language: Language, surface: Surface, base: string, body: Json): string {
  if (language === "python") return PYTHON[surface](base, body);
  if (language === "typescript") return TYPESCRIPT[surface](base, body);
  return [
    `curl --no-buffer ${base}${SURFACE_PATHS[surface].replace("/v1", "")}`,
    `-H "Authorization: Bearer $KEY"`,
    `-H 'Content-Type: application/json'`,
    `-d ${shellWord(JSON.stringify(body))}`,
  ].join(" \\\n  ");
}
