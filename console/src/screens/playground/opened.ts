import type { RequestDetail } from "@/api/pending";
import { storedBody } from "../requests/curl";
import { NO_SETTINGS, type Said, type Settings, SURFACES, type Surface } from "./draft";

/** A logged request as the playground opens it. */
export interface Opened {
  surface: Surface;
  settings: Settings;
  said: readonly Said[];
}

type Json = Record<string, unknown>;

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function partText(part: unknown): string {
  if (!isObject(part)) return "";
  return typeof part.text === "string" ? part.text : "";
}

function partImage(part: unknown): string[] {
  if (!isObject(part)) return [];
  const chat = isObject(part.image_url) ? part.image_url.url : part.image_url;
  if (typeof chat === "string") return [chat];
  const source = isObject(part.source) ? part.source : {};
  if (typeof source.url === "string") return [source.url];
  return typeof source.data === "string" ? [`data:${source.media_type};base64,${source.data}`] : [];
}

function plain(content: unknown): string {
  if (typeof content === "string") return content;
  return Array.isArray(content) ? content.map(partText).filter(Boolean).join("\n") : "";
}

function saidOf(message: unknown): { role: string; text: string; images: string[] } {
  if (!isObject(message)) return { role: "", text: "", images: [] };
  const images = Array.isArray(message.content) ? message.content.flatMap(partImage) : [];
  return { role: String(message.role ?? "user"), text: plain(message.content), images };
}

function number(value: unknown): string {
  return typeof value === "number" ? String(value) : "";
}

function json(value: unknown): string {
  return value === undefined || value === null ? "" : JSON.stringify(value, null, 2);
}

function schemaOf(body: Json): unknown {
  const chat = isObject(body.response_format) ? body.response_format.json_schema : undefined;
  if (isObject(chat)) return chat.schema;
  const text = isObject(body.text) ? body.text.format : undefined;
  const output = isObject(body.output_config) ? body.output_config.format : undefined;
  return (isObject(text) ? text.schema : undefined) ?? (isObject(output) ? output.schema : undefined);
}

/** The conversation and the settings of a request, as far as its prompt was kept. */
export function openedOf(request: Pick<RequestDetail, "surface" | "payload">): Opened {
  const surface = SURFACES.find((name) => name === request.surface) ?? "chat";
  let body: unknown;
  try {
    body = JSON.parse(storedBody(request) ?? "null");
  } catch {
    body = null;
  }
  if (!isObject(body)) return { surface, settings: NO_SETTINGS, said: [] };
  const messages = typeof body.input === "string" ? [{ role: "user", content: body.input }] : body.input;
  const all = (Array.isArray(body.messages) ? body.messages : Array.isArray(messages) ? messages : []).map(
    saidOf,
  );
  const isSystem = (role: string) => role === "system" || role === "developer";
  const systems = [
    plain(body.system),
    plain(body.instructions),
    ...all.filter((m) => isSystem(m.role)).map((m) => m.text),
  ];
  return {
    surface,
    said: all.flatMap(({ role, ...rest }) =>
      role === "user" || role === "assistant" ? [{ role, ...rest }] : [],
    ),
    settings: {
      ...NO_SETTINGS,
      system: systems.filter(Boolean).join("\n"),
      temperature: number(body.temperature),
      topP: number(body.top_p),
      maxTokens: number(body.max_completion_tokens ?? body.max_output_tokens ?? body.max_tokens),
      tools: json(body.tools),
      schema: json(schemaOf(body)),
      more: json(isObject(body.routing) ? { routing: body.routing } : undefined),
    },
  };
}
