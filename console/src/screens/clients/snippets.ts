import { shellWord } from "../requests/curl";
import { bareName, type Endpoint, openaiUrl } from "./endpoint";

/** One thing to do, with the text to copy. */
export interface Step {
  title: string;
  code: string;
  note?: string;
}

export interface Client {
  id: string;
  name: string;
  group: "Agents and applications" | "SDKs" | "Shell";
  /** One sentence that a reader needs before the steps. */
  lead?: string;
  steps: (endpoint: Endpoint) => Step[];
}

const PROVIDER = "model-gateway";
const KEY = "MODEL_GATEWAY_KEY";

function exports(variables: readonly [name: string, value: string][]): string {
  return variables.map(([name, value]) => `export ${name}=${shellWord(value)}`).join("\n");
}

function json(value: unknown): string {
  return JSON.stringify(value, null, 2);
}

function quoted(text: string): string {
  return JSON.stringify(text);
}

/** The start of a program through our own command, which needs no other set-up. */
function viaRun(endpoint: Endpoint, program: string): Step {
  return {
    title: "Or let the gateway's program start it",
    code: [
      exports([[KEY, endpoint.key]]),
      `model-gateway run --url ${endpoint.origin} --model ${shellWord(endpoint.model)} -- ${program}`,
    ].join("\n"),
    note: "The program model-gateway must be installed on the machine of the client.",
  };
}

const CLAUDE_MODELS = [
  "ANTHROPIC_MODEL",
  "ANTHROPIC_DEFAULT_FABLE_MODEL",
  "ANTHROPIC_DEFAULT_OPUS_MODEL",
  "ANTHROPIC_DEFAULT_SONNET_MODEL",
  "ANTHROPIC_DEFAULT_HAIKU_MODEL",
];
const CLAUDE_QUIET = [
  "DISABLE_TELEMETRY",
  "DISABLE_ERROR_REPORTING",
  "DISABLE_AUTOUPDATER",
  "DISABLE_FEEDBACK_COMMAND",
  "CLAUDE_CODE_DISABLE_FEEDBACK_SURVEY",
];
const CLAUDE_MAX_OUTPUT = 32_000;

function claudeVariables(endpoint: Endpoint): [string, string][] {
  const most = Math.min(endpoint.maxOutput ?? CLAUDE_MAX_OUTPUT, CLAUDE_MAX_OUTPUT);
  const named = (names: readonly string[], value: string) =>
    names.map((name): [string, string] => [name, value]);
  return [
    ["ANTHROPIC_BASE_URL", endpoint.origin],
    ["ANTHROPIC_AUTH_TOKEN", endpoint.key],
    ["CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY", "1"],
    ...named(CLAUDE_MODELS, endpoint.model),
    ["CLAUDE_CODE_MAX_OUTPUT_TOKENS", String(most)],
    ...named(endpoint.context === null ? [] : ["CLAUDE_CODE_MAX_CONTEXT_TOKENS"], String(endpoint.context)),
    ...named(CLAUDE_QUIET, "1"),
  ];
}

function claude(endpoint: Endpoint): Step[] {
  const variables = claudeVariables(endpoint);
  return [
    {
      title: "Run these commands in the shell of Claude Code",
      code: `${exports(variables)}\nunset ANTHROPIC_API_KEY\nclaude`,
    },
    {
      title: "Or write this into ~/.claude/settings.json",
      code: json({ env: Object.fromEntries(variables.toSorted(([a], [b]) => (a < b ? -1 : 1))) }),
    },
    viaRun(endpoint, "claude"),
  ];
}

function codex(endpoint: Endpoint): Step[] {
  const context = endpoint.context === null ? [] : [`model_context_window = ${endpoint.context}`];
  return [
    {
      title: "Write this into ~/.codex/config.toml",
      note: "The first lines belong above the first table of the file.",
      code: [
        `model = ${quoted(endpoint.model)}`,
        ...context,
        `model_provider = "${PROVIDER}"`,
        "",
        `[model_providers.${PROVIDER}]`,
        'name = "Model Gateway"',
        `base_url = ${quoted(openaiUrl(endpoint))}`,
        `env_key = "${KEY}"`,
        'wire_api = "responses"',
      ].join("\n"),
    },
    { title: "Start Codex with the key", code: `${exports([[KEY, endpoint.key]])}\ncodex` },
    viaRun(endpoint, "codex"),
  ];
}

function aider(endpoint: Endpoint): Step[] {
  return [
    {
      title: "Run these commands in the shell of aider",
      code: `${exports([
        ["OPENAI_API_BASE", openaiUrl(endpoint)],
        ["OPENAI_API_KEY", endpoint.key],
        ["AIDER_MODEL", `openai/${endpoint.model}`],
      ])}\naider`,
    },
    viaRun(endpoint, "aider"),
  ];
}

function opencode(endpoint: Endpoint): Step[] {
  const { model, context, maxOutput } = endpoint;
  const limit = context !== null && maxOutput !== null ? { limit: { context, output: maxOutput } } : {};
  return [
    {
      title: "Write this into ~/.config/opencode/opencode.json",
      code: json({
        $schema: "https://opencode.ai/config.json",
        model: `${PROVIDER}/${model}`,
        provider: {
          [PROVIDER]: {
            npm: "@ai-sdk/openai-compatible",
            name: "Model Gateway",
            options: { baseURL: openaiUrl(endpoint), apiKey: `{env:${KEY}}` },
            models: { [model]: { name: model, ...limit } },
          },
        },
      }),
    },
    { title: "Start opencode with the key", code: `${exports([[KEY, endpoint.key]])}\nopencode` },
    viaRun(endpoint, "opencode"),
  ];
}

function goose(endpoint: Endpoint): Step[] {
  return [
    {
      title: "Run these commands in the shell of goose",
      code: `${exports([
        ["GOOSE_PROVIDER", "openai"],
        ["OPENAI_HOST", endpoint.origin],
        ["OPENAI_BASE_PATH", "v1/chat/completions"],
        ["OPENAI_API_KEY", endpoint.key],
        ["GOOSE_MODEL", endpoint.model],
      ])}\ngoose session`,
    },
    viaRun(endpoint, "goose session"),
  ];
}

function continueDev(endpoint: Endpoint): Step[] {
  return [
    {
      title: "Write this into ~/.continue/config.yaml",
      code: [
        "name: Model Gateway",
        "version: 1.0.0",
        "schema: v1",
        "models:",
        `  - name: ${quoted(endpoint.model)}`,
        "    provider: openai",
        `    model: ${quoted(endpoint.model)}`,
        `    apiBase: ${quoted(openaiUrl(endpoint))}`,
        `    apiKey: ${quoted(endpoint.key)}`,
        "    roles: [chat, edit, apply]",
      ].join("\n"),
    },
  ];
}

function openWebui(endpoint: Endpoint): Step[] {
  return [
    {
      title: "Start Open WebUI with these variables",
      code: exports([
        ["OPENAI_API_BASE_URL", openaiUrl(endpoint)],
        ["OPENAI_API_KEY", endpoint.key],
      ]),
      note: "Or open Admin Settings, Connections, and write both values into a connection of OpenAI's API. In a container 127.0.0.1 is the container: write the address of the host.",
    },
    {
      title: "Give the connection the models that chat",
      code: endpoint.model,
      note: "Open WebUI shows embedding models as chats, too. Write the ids into the connection, or give it a key that has chat models only.",
    },
  ];
}

function pythonOpenai(endpoint: Endpoint): Step[] {
  return [
    { title: "Put the key into the environment", code: exports([["KEY", endpoint.key]]) },
    {
      title: "Call the gateway",
      code: `import os

from openai import OpenAI

client = OpenAI(base_url=${quoted(openaiUrl(endpoint))}, api_key=os.environ["KEY"])
answer = client.chat.completions.create(
    model=${quoted(endpoint.model)},
    messages=[{"role": "user", "content": "Hello!"}],
)
print(answer.choices[0].message.content, answer.usage.cost_usd)`,
      note: "pip install openai",
    },
  ];
}

function typescriptOpenai(endpoint: Endpoint): Step[] {
  return [
    { title: "Put the key into the environment", code: exports([["KEY", endpoint.key]]) },
    {
      title: "Call the gateway",
      code: `import OpenAI from "openai";

const client = new OpenAI({ baseURL: ${quoted(openaiUrl(endpoint))}, apiKey: process.env.KEY });
const answer = await client.chat.completions.create({
  model: ${quoted(endpoint.model)},
  messages: [{ role: "user", content: "Hello!" }],
});
console.log(answer.choices[0].message.content);`,
      note: "npm install openai",
    },
  ];
}

function anthropicSdk(endpoint: Endpoint): Step[] {
  return [
    {
      title: "Run these commands in the shell of the program",
      code: `${exports([
        ["ANTHROPIC_BASE_URL", endpoint.origin],
        ["ANTHROPIC_API_KEY", endpoint.key],
      ])}\nunset ANTHROPIC_AUTH_TOKEN`,
    },
    {
      title: "Call the gateway",
      code: `from anthropic import Anthropic

client = Anthropic()
answer = client.messages.create(
    model=${quoted(endpoint.model)},
    max_tokens=256,
    messages=[{"role": "user", "content": "Hello!"}],
)
print(answer.content[0].text)`,
      note: "pip install anthropic",
    },
  ];
}

function geminiCli(endpoint: Endpoint): Step[] {
  return [
    {
      title: "Run these commands in the shell of Gemini CLI",
      code: `${exports([
        ["GOOGLE_GEMINI_BASE_URL", endpoint.origin],
        ["GEMINI_API_KEY", endpoint.key],
      ])}\ngemini --model ${shellWord(endpoint.model)}`,
      note: 'Choose "Use Gemini API key" when it asks how to sign in.',
    },
    {
      title: "Give the names of Google's small models to a model that you have",
      code: `[aliases]
"gemini-2.5-flash" = ${quoted(endpoint.model)}
"gemini-2.5-flash-lite" = ${quoted(endpoint.model)}`,
      note: "Gemini CLI calls these names for tasks beside the conversation. Write the lines into gateway.toml, or add both aliases under Configuration.",
    },
  ];
}

function googleGenai(endpoint: Endpoint): Step[] {
  return [
    { title: "Put the key into the environment", code: exports([["KEY", endpoint.key]]) },
    {
      title: "Call the gateway",
      code: `import os

from google import genai

client = genai.Client(api_key=os.environ["KEY"], http_options={"base_url": ${quoted(endpoint.origin)}})
answer = client.models.generate_content(model=${quoted(endpoint.model)}, contents="Hello!")
print(answer.text)`,
      note: "pip install google-genai",
    },
  ];
}

function langchain(endpoint: Endpoint): Step[] {
  return [
    { title: "Put the key into the environment", code: exports([["KEY", endpoint.key]]) },
    {
      title: "Call the gateway",
      code: `import os

from langchain_openai import ChatOpenAI

model = ChatOpenAI(
    base_url=${quoted(openaiUrl(endpoint))},
    api_key=os.environ["KEY"],
    model=${quoted(endpoint.model)},
)
print(model.invoke("Hello!").content)`,
      note: "pip install langchain-openai. OpenAIEmbeddings needs check_embedding_ctx_length=False, unless the provider takes OpenAI's tokens.",
    },
  ];
}

function ownPrefix(endpoint: Endpoint): Step[] {
  const bare = bareName(endpoint.model);
  return [
    {
      title: "OpenAI Agents SDK",
      code: exports([
        ["OPENAI_BASE_URL", openaiUrl(endpoint)],
        ["OPENAI_API_KEY", endpoint.key],
        ["OPENAI_DEFAULT_MODEL", bare],
      ]),
    },
    {
      title: "CrewAI",
      code: `LLM(model=${quoted(`openai/${bare}`)}, base_url=${quoted(openaiUrl(endpoint))}, api_key=os.environ["KEY"])`,
    },
    {
      title: "LlamaIndex",
      code: `OpenAILike(model=${quoted(bare)}, is_chat_model=True, api_base=${quoted(openaiUrl(endpoint))}, api_key=os.environ["KEY"])`,
    },
  ];
}

function variables(endpoint: Endpoint): Step[] {
  return [
    {
      title: "Run these commands in the shell of the program",
      code: exports([
        ["OPENAI_BASE_URL", openaiUrl(endpoint)],
        ["OPENAI_API_BASE", openaiUrl(endpoint)],
        ["OPENAI_API_KEY", endpoint.key],
      ]),
      note: "A program with other settings needs the same three values: a base URL, a key and a model.",
    },
  ];
}

function curl(endpoint: Endpoint): Step[] {
  const body = JSON.stringify({
    model: endpoint.model,
    messages: [{ role: "user", content: "Hello!" }],
  });
  return [
    {
      title: "Ask a question",
      code: [
        exports([["KEY", endpoint.key]]),
        `curl ${openaiUrl(endpoint)}/chat/completions \\`,
        '  -H "Authorization: Bearer $KEY" \\',
        "  -H 'Content-Type: application/json' \\",
        `  -d ${shellWord(body)}`,
      ].join("\n"),
    },
  ];
}

const AGENTS = "Agents and applications";

/** Every client of the documentation. */
export const CLIENTS: readonly Client[] = [
  { id: "claude-code", name: "Claude Code", group: AGENTS, steps: claude },
  {
    id: "codex",
    name: "Codex",
    group: AGENTS,
    lead: "Codex calls tools in almost every turn: choose a model with the feature function calling.",
    steps: codex,
  },
  { id: "aider", name: "aider", group: AGENTS, steps: aider },
  { id: "opencode", name: "opencode", group: AGENTS, steps: opencode },
  { id: "goose", name: "goose", group: AGENTS, steps: goose },
  { id: "continue", name: "Continue", group: AGENTS, steps: continueDev },
  { id: "gemini-cli", name: "Gemini CLI", group: AGENTS, steps: geminiCli },
  { id: "open-webui", name: "Open WebUI", group: AGENTS, steps: openWebui },
  { id: "openai-python", name: "OpenAI SDK, Python", group: "SDKs", steps: pythonOpenai },
  { id: "openai-typescript", name: "OpenAI SDK, TypeScript", group: "SDKs", steps: typescriptOpenai },
  { id: "anthropic", name: "Anthropic SDK", group: "SDKs", steps: anthropicSdk },
  { id: "google-genai", name: "Google Gen AI SDK", group: "SDKs", steps: googleGenai },
  { id: "langchain", name: "LangChain", group: "SDKs", steps: langchain },
  {
    id: "own-prefix",
    name: "Agents SDK, CrewAI, LlamaIndex",
    group: "SDKs",
    lead: "These read the slash of a model's name themselves. Give them the bare name, which the gateway resolves.",
    steps: ownPrefix,
  },
  { id: "curl", name: "curl", group: "Shell", steps: curl },
  { id: "other", name: "Any other program", group: "Shell", steps: variables },
];
