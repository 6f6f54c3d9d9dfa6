import createClient, { type Middleware } from "openapi-fetch";
import createQueries from "openapi-react-query";
import { gatewayRoot } from "@/app/places";
import { errorOf, unanswered } from "./errors";
import type { PendingPaths } from "./pending";
import type { components, paths as DocumentedPaths } from "./schema";

export type Paths = Omit<DocumentedPaths, keyof PendingPaths> & PendingPaths;
export type Schemas = components["schemas"];

const whole: Middleware = {
  onRequest({ request }) {
    // The gateway takes changes of a browser's session only as JSON.
    if (request.method !== "GET" && !request.headers.has("content-type")) {
      request.headers.set("content-type", "application/json");
    }
    return request;
  },
  async onResponse({ response }) {
    if (!response.ok) throw await errorOf(response);
  },
  onError({ error }) {
    return unanswered(error);
  },
};

/** The one client of the API. It throws an `ApiError` for every answer that is no success. */
export const client = createClient<Paths>({
  baseUrl: gatewayRoot.href.replace(/\/$/, ""),
  credentials: "same-origin",
});
client.use(whole);

/** The body of an answer that must have one. */
export async function bodyOf<T>(answer: Promise<{ data?: T }>): Promise<T> {
  const { data } = await answer;
  if (data === undefined) throw new Error("The gateway answered without a body.");
  return data;
}

/** The client as queries and mutations: `api.useQuery("get", "/v1/me")`. */
export const api = createQueries(client);

/** The address of an API path with its query, for links and downloads. */
export function apiUrl(path: string, query: Record<string, string | undefined> = {}): string {
  const url = new URL(path.replace(/^\//, ""), gatewayRoot);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  return url.href;
}
