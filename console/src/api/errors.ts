/** An answer of the API that is no success, in the API's own words. */
export class ApiError extends Error {
  override readonly name = "ApiError";

  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly requestId: string | null,
  ) {
    super(message);
  }
}

/** The status of an error inside a stream, whose answer had begun as a success. */
export const IN_STREAM = 0;

/** The error of a call that got no answer. Browsers throw a `TypeError` then, each in other words. */
export function unanswered(error: unknown): Error {
  if (error instanceof TypeError) return new Error("The gateway does not answer.", { cause: error });
  return error instanceof Error ? error : new Error(String(error));
}

/** Codes whose messages say what to do themselves. */
const COMPLETE = new Set(["sign_in_failed", "cross_site_request"]);

const NEXT_STEPS: Record<string, string> = {
  invalid_api_key: "Check that the key is complete, and neither revoked nor expired.",
  admin_required: "Sign in with a key of the role viewer, operator or admin.",
  role_not_allowed: "Ask an administrator for a key with more rights.",
  configured_in_file: "Change the file that the message names, then reload the configuration.",
  invalid_configuration: "Correct the members that the message names.",
  version_mismatch: "Somebody else changed it first. Load it again and repeat your change.",
  store_unavailable: "The store does not answer. Wait a moment and repeat, or choose a shorter time.",
  rate_limit_exceeded: "Wait until the limit has room again.",
  insufficient_quota: "Raise the budget of the key or its team, or wait for the next period.",
  model_not_found: "Choose a model of the catalogue.",
  model_not_allowed: "Choose a model that the key may use, or change the key's models.",
};

/** What the reader can do about an error, if its message does not say it. */
export function nextStep(error: Error): string | undefined {
  if (!(error instanceof ApiError)) return "Check that the gateway runs and that this page can reach it.";
  if (COMPLETE.has(error.code)) return undefined;
  const known = NEXT_STEPS[error.code];
  if (known) return known;
  if (error.status >= 500 || error.status === IN_STREAM)
    return "Repeat it in a moment. If it stays, look at the log of the gateway.";
  if (error.status === 404) return "It is gone, or the address is wrong. Look for it in its list.";
  return "Correct the request and repeat it.";
}

function member(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** The error that a response stands for. Every shape of the gateway's errors has `error.message`. */
export async function errorOf(response: Response): Promise<ApiError> {
  const body: unknown = await response.json().catch(() => undefined);
  const error = member(body, "error");
  return new ApiError(
    response.status,
    text(member(error, "code")) ?? text(member(error, "type")) ?? `http_${response.status}`,
    text(member(error, "message")) ?? `The gateway answered with status ${response.status}.`,
    response.headers.get("x-request-id"),
  );
}
