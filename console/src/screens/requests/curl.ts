import type { RequestDetail } from "@/api/pending";

const PATHS: Record<string, string> = {
  chat: "chat/completions",
  responses: "responses",
  messages: "messages",
  completions: "completions",
  embeddings: "embeddings",
};

/** A text as one word of a POSIX shell. */
export function shellWord(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A body in the place of one that was not kept. */
function standIn(request: Pick<RequestDetail, "surface" | "requested_model" | "stream">): string {
  const model = request.requested_model;
  const stream = request.stream ? { stream: true } : {};
  const messages = [{ role: "user", content: "Hello!" }];
  const bodies: Record<string, object> = {
    chat: { model, messages, ...stream },
    messages: { model, max_tokens: 256, messages, ...stream },
    responses: { model, input: "Hello!", ...stream },
    completions: { model, prompt: "Hello!", ...stream },
    embeddings: { model, input: "Hello!" },
  };
  return JSON.stringify(bodies[request.surface] ?? bodies.chat);
}

/** The stored body of a request, if all of it was stored. */
export function storedBody(request: Pick<RequestDetail, "payload">): string | undefined {
  const { payload } = request;
  return payload && !payload.request_truncated ? payload.request : undefined;
}

type Repeatable = Pick<RequestDetail, "surface" | "requested_model" | "stream" | "payload">;

/** The request as a command. A prompt that was not kept is "Hello!". */
export function curlOf(request: Repeatable, apiBase: string): string {
  const path = PATHS[request.surface] ?? PATHS.chat;
  const buffering = request.stream ? " --no-buffer" : "";
  return [
    `curl${buffering} ${apiBase}/${path}`,
    `-H "Authorization: Bearer $KEY"`,
    `-H 'Content-Type: application/json'`,
    `-d ${shellWord(storedBody(request) ?? standIn(request))}`,
  ].join(" \\\n  ");
}
