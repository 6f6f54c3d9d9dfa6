/** What every client needs. */
export interface Endpoint {
  /** The gateway's address without a slash at its end and without `/v1`. */
  origin: string;
  model: string;
  key: string;
  /** The context window and the longest answer of the model in tokens, if they are known. */
  context: number | null;
  maxOutput: number | null;
}

/** What stands in the place of a key that is not known. */
export const PLACEHOLDER = "YOUR_KEY";

/** The base URL of OpenAI's API. */
export function openaiUrl(endpoint: Endpoint): string {
  return `${endpoint.origin}/v1`;
}

/** A model's name without its provider, for programs that read the slash themselves. */
export function bareName(model: string): string {
  return model.slice(model.indexOf("/") + 1);
}

/** The gateway's address as clients reach it: this console's own place, or the listener of the API. */
export function originOf(
  root: string,
  api: { same_origin: boolean; listen: string },
  hostname: string,
): string {
  if (api.same_origin) return root.replace(/\/$/, "");
  const [, host = "", port = ""] = /^(.*):(\d+)$/.exec(api.listen) ?? [];
  const isAny = host === "0.0.0.0" || host === "[::]";
  return `http://${isAny ? hostname : host}:${port}`;
}
