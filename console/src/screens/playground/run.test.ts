import { afterEach, expect, it, vi } from "vitest";
import { ApiError } from "@/api/errors";
import { isWithoutSession, type Run, send } from "./run";

function answerWith(text: string, status = 200): void {
  const headers = { "x-request-id": "req_1", "content-type": "text/event-stream" };
  vi.stubGlobal("fetch", async () => new Response(text, { status, headers }));
}

async function lastRun(signal = new AbortController().signal): Promise<Run | undefined> {
  let last: Run | undefined;
  await send("chat", { model: "m" }, signal, (run) => {
    last = run;
  });
  return last;
}

afterEach(() => vi.unstubAllGlobals());

it("reads an answer to its end, with the time to its first token", async () => {
  answerWith(
    'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\ndata: {"usage":{"completion_tokens":1,"cost_usd":0.5}}\n\ndata: [DONE]\n\n',
  );
  const run = await lastRun();
  expect(run).toMatchObject({ state: "done", requestId: "req_1", error: null });
  expect(run?.answer).toMatchObject({ text: "Hi", completionTokens: 1, costUsd: 0.5 });
  expect(run?.ttftMs).not.toBeNull();
  expect(run?.totalMs).not.toBeNull();
});

it("fails with the API's own words", async () => {
  answerWith('{"error":{"message":"No such model.","code":"model_not_found"}}', 404);
  const run = await lastRun();
  expect(run?.state).toBe("failed");
  expect(run?.error).toMatchObject({ status: 404, code: "model_not_found", message: "No such model." });
});

it("knows an answer that says that the session has ended", async () => {
  answerWith('{"error":{"message":"No key.","code":"invalid_api_key"}}', 401);
  expect((await lastRun()) && isWithoutSession((await lastRun()) as Run)).toBe(true);
  answerWith('{"error":{"message":"No such model.","code":"model_not_found"}}', 404);
  expect(isWithoutSession((await lastRun()) as Run)).toBe(false);
});

it("keeps the begin of an answer whose stream fails", async () => {
  answerWith(
    'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\ndata: {"error":{"message":"Broke.","code":"c"}}\n\n',
  );
  const run = await lastRun();
  expect(run).toMatchObject({ state: "failed", answer: { text: "Hi" } });
  expect(run?.error).toBeInstanceOf(ApiError);
});

it("tells a connection that is lost within an answer from a gateway that does not answer", async () => {
  const chunk = new TextEncoder().encode('data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n');
  const chunks = [chunk];
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const next = chunks.shift();
      if (next) controller.enqueue(next);
      else controller.error(new TypeError("network error"));
    },
  });
  vi.stubGlobal("fetch", async () => new Response(body));
  const broken = await lastRun();
  expect(broken).toMatchObject({ state: "failed", answer: { text: "Hi" } });
  expect(broken?.error?.message).toBe("The answer broke off.");
  vi.stubGlobal("fetch", async () => {
    throw new TypeError("Failed to fetch");
  });
  expect((await lastRun())?.error?.message).toBe("The gateway does not answer.");
});

it("is stopped by its reader and not failed", async () => {
  const controller = new AbortController();
  controller.abort();
  vi.stubGlobal("fetch", async () => {
    throw new DOMException("aborted", "AbortError");
  });
  expect(await lastRun(controller.signal)).toMatchObject({ state: "stopped", error: null });
});
