type Json = Record<string, unknown>;

/**
 * The document for readers who are signed in: the server is this gateway, and no operation asks for a key, because
 * the browser sends the session.
 */
export function forSession(document: Json, root: string): Json {
  const { security: _security, ...rest } = document;
  return { ...rest, servers: [{ url: root.replace(/\/$/, "") }] };
}

/** A request that the gateway takes from a session: every change is JSON, also without a body. */
export function asSession<Request extends { method: string; headers: Record<string, string> }>(
  request: Request,
): Request {
  const names = Object.keys(request.headers).map((name) => name.toLowerCase());
  if (request.method === "GET" || names.includes("content-type")) return request;
  return { ...request, headers: { ...request.headers, "content-type": "application/json" } };
}
