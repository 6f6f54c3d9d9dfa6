/** The APIs that generate texts. */
export const SURFACES = ["chat", "responses", "messages"] as const;
export type Surface = (typeof SURFACES)[number];

export const SURFACE_NAMES: Record<Surface, string> = {
  chat: "Chat completions",
  responses: "Responses",
  messages: "Messages",
};

export const SURFACE_PATHS: Record<Surface, string> = {
  chat: "/v1/chat/completions",
  responses: "/v1/responses",
  messages: "/v1/messages",
};

/** What a conversation is sent with, as the reader typed it. Empty texts are left out of the request. */
export interface Settings {
  system: string;
  temperature: string;
  topP: string;
  maxTokens: string;
  /** A JSON array of tools. */
  tools: string;
  /** A JSON schema for the answer. */
  schema: string;
  /** A JSON object whose members are added to the request. */
  more: string;
}

export const NO_SETTINGS: Settings = {
  system: "",
  temperature: "",
  topP: "",
  maxTokens: "",
  tools: "",
  schema: "",
  more: "",
};

/** A message of the conversation that a request continues. */
export interface Said {
  role: "user" | "assistant";
  text: string;
  /** Images as data URLs. */
  images?: readonly string[];
}

/** A setting that cannot be sent as it was typed. */
export class SettingProblem extends Error {
  constructor(
    readonly setting: keyof Settings,
    message: string,
  ) {
    super(message);
  }
}

type Json = Record<string, unknown>;

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function parse(setting: keyof Settings, name: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new SettingProblem(
      setting,
      `${name} is not JSON: ${error instanceof Error ? error.message : error}`,
    );
  }
}

function object(settings: Settings, setting: "schema" | "more", name: string): Json | undefined {
  if (settings[setting].trim() === "") return undefined;
  const value = parse(setting, name, settings[setting]);
  if (!isObject(value)) throw new SettingProblem(setting, `${name} must be a JSON object.`);
  return value;
}

function number(settings: Settings, setting: "temperature" | "topP" | "maxTokens", name: string) {
  if (settings[setting].trim() === "") return undefined;
  const value = Number(settings[setting]);
  if (!Number.isFinite(value)) throw new SettingProblem(setting, `${name} must be a number.`);
  return value;
}

interface ToolText {
  name: unknown;
  description?: unknown;
  parameters: unknown;
}

/** Tools in the form of any of the surfaces, or nothing. */
function toolsOf(settings: Settings): (ToolText | { raw: Json })[] | undefined {
  if (settings.tools.trim() === "") return undefined;
  const value = parse("tools", "Tools", settings.tools);
  if (!Array.isArray(value) || !value.every(isObject)) {
    throw new SettingProblem("tools", "Tools must be a JSON array of objects.");
  }
  return value.map((tool) => {
    const inner = isObject(tool.function) ? tool.function : tool;
    if (inner.name === undefined || (tool.type !== undefined && tool.type !== "function"))
      return { raw: tool };
    return {
      name: inner.name,
      ...(inner.description === undefined ? {} : { description: inner.description }),
      parameters: inner.parameters ?? inner.input_schema ?? { type: "object", properties: {} },
    };
  });
}

function isRaw(tool: ToolText | { raw: Json }): tool is { raw: Json } {
  return "raw" in tool;
}

interface Parts {
  settings: Settings;
  said: readonly Said[];
  tools: ReturnType<typeof toolsOf>;
  schema: Json | undefined;
  temperature: number | undefined;
  topP: number | undefined;
  maxTokens: number | undefined;
}

/** A message with images as an array of parts; without images it is a text. */
function content(said: Said, text: (text: string) => Json, image: (url: string) => Json): unknown {
  const images = said.images ?? [];
  if (images.length === 0) return said.text;
  return [...(said.text === "" ? [] : [text(said.text)]), ...images.map(image)];
}

function chatBody(parts: Parts): Json {
  const system = parts.settings.system === "" ? [] : [{ role: "system", content: parts.settings.system }];
  return {
    messages: [
      ...system,
      ...parts.said.map((said) => ({
        role: said.role,
        content: content(
          said,
          (text) => ({ type: "text", text }),
          (url) => ({ type: "image_url", image_url: { url } }),
        ),
      })),
    ],
    temperature: parts.temperature,
    top_p: parts.topP,
    max_completion_tokens: parts.maxTokens,
    tools: parts.tools?.map((tool) => (isRaw(tool) ? tool.raw : { type: "function", function: tool })),
    response_format: parts.schema && {
      type: "json_schema",
      json_schema: { name: "answer", schema: parts.schema },
    },
    stream: true,
    stream_options: { include_usage: true },
  };
}

function responsesBody(parts: Parts): Json {
  const outgoing = (text: string) => ({ type: "input_text", text });
  return {
    instructions: parts.settings.system || undefined,
    input: parts.said.map((said) => ({
      role: said.role,
      content: content(said, outgoing, (url) => ({ type: "input_image", image_url: url, detail: "auto" })),
    })),
    temperature: parts.temperature,
    top_p: parts.topP,
    max_output_tokens: parts.maxTokens,
    tools: parts.tools?.map((tool) => (isRaw(tool) ? tool.raw : { type: "function", ...tool })),
    text: parts.schema && { format: { type: "json_schema", name: "answer", schema: parts.schema } },
    store: false,
    stream: true,
  };
}

/** The source of an image as Anthropic's API takes it. */
function imageSource(url: string): Json {
  const [, type, data] = /^data:([^;,]+);base64,(.*)$/s.exec(url) ?? [];
  return type && data ? { type: "base64", media_type: type, data } : { type: "url", url };
}

/** The answer's length over Messages, where the API needs one. */
const MESSAGES_MAX_TOKENS = 4096;

function messagesBody(parts: Parts): Json {
  return {
    max_tokens: parts.maxTokens ?? MESSAGES_MAX_TOKENS,
    system: parts.settings.system || undefined,
    messages: parts.said.map((said) => ({
      role: said.role,
      content: content(
        said,
        (text) => ({ type: "text", text }),
        (url) => ({ type: "image", source: imageSource(url) }),
      ),
    })),
    temperature: parts.temperature,
    top_p: parts.topP,
    tools: parts.tools?.map((tool) => {
      if (isRaw(tool)) return tool.raw;
      const { parameters, ...rest } = tool;
      return { ...rest, input_schema: parameters };
    }),
    output_config: parts.schema && { format: { type: "json_schema", schema: parts.schema } },
    stream: true,
  };
}

const BODIES = { chat: chatBody, responses: responsesBody, messages: messagesBody };

/** The body of a request. It throws a `SettingProblem` for a setting that cannot be sent. */
export function bodyOf(surface: Surface, model: string, said: readonly Said[], settings: Settings): Json {
  const body = BODIES[surface]({
    settings,
    said,
    tools: toolsOf(settings),
    schema: object(settings, "schema", "The JSON schema"),
    temperature: number(settings, "temperature", "Temperature"),
    topP: number(settings, "topP", "Top p"),
    maxTokens: number(settings, "maxTokens", "The longest answer"),
  });
  const members = Object.entries(body).filter(([, value]) => value !== undefined);
  return { model, ...Object.fromEntries(members), ...object(settings, "more", "The other members") };
}
