import { apiUrl } from "@/api/client";
import { ApiError, errorOf, IN_STREAM, unanswered } from "@/api/errors";
import { type Answer, hasBegun, NO_ANSWER, withEvent } from "./answer";
import { SURFACE_PATHS, type Surface } from "./draft";
import { eventsOf } from "./sse";

/** One request of the playground and its answer. */
export interface Run {
  state: "running" | "done" | "failed" | "stopped";
  answer: Answer;
  /** The time to the first token, measured here. */
  ttftMs: number | null;
  totalMs: number | null;
  requestId: string | null;
  error: Error | null;
}

export const NEW_RUN: Run = {
  state: "running",
  answer: NO_ANSWER,
  ttftMs: null,
  totalMs: null,
  requestId: null,
  error: null,
};

/** A page shows a growing answer at most this often. */
const SHOW_MS = 60;

/** Whether the gateway refused the request because the session has ended. */
export function isWithoutSession(run: Run): boolean {
  return run.error instanceof ApiError && run.error.status === 401;
}

/** The error of an answer that had begun. Browsers throw a `TypeError` for a lost connection, as for a call without an answer. */
function brokenOff(error: unknown): Error {
  if (error instanceof TypeError) return new Error("The answer broke off.", { cause: error });
  return error instanceof Error ? error : new Error(String(error));
}

/** Sends a request and tells `show` how its answer grows. It answers with the run at its end, and never throws. */
export async function send(
  surface: Surface,
  body: object,
  signal: AbortSignal,
  show: (run: Run) => void,
): Promise<Run> {
  const started = performance.now();
  let run = NEW_RUN;
  let shown = started;
  try {
    const response = await fetch(apiUrl(SURFACE_PATHS[surface]), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      signal,
    }).catch((failure) => {
      throw unanswered(failure);
    });
    run = { ...run, requestId: response.headers.get("x-request-id") };
    if (!response.ok) throw await errorOf(response);
    if (!response.body) throw new Error("The answer has no body.");
    for await (const event of eventsOf(response.body)) {
      const answer = withEvent(surface, run.answer, event);
      const now = performance.now();
      run = { ...run, answer, ttftMs: run.ttftMs ?? (hasBegun(answer) ? now - started : null) };
      if (now - shown > SHOW_MS) {
        shown = now;
        show(run);
      }
    }
    const failed = run.answer.error;
    const error = failed && new ApiError(IN_STREAM, failed.code, failed.message, run.requestId);
    run = { ...run, state: error ? "failed" : "done", error };
  } catch (failure) {
    const error = brokenOff(failure);
    run = signal.aborted ? { ...run, state: "stopped" } : { ...run, state: "failed", error };
  }
  const ended = { ...run, totalMs: performance.now() - started };
  show(ended);
  return ended;
}
