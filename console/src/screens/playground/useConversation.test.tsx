import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { act, renderHook } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { sessionQuery } from "@/api/session";
import { NO_ANSWER } from "./answer";
import { NO_SETTINGS } from "./draft";
import { NEW_RUN } from "./run";
import { historyOf, useConversation } from "./useConversation";

afterEach(() => vi.unstubAllGlobals());

function conversation(status: number) {
  const body = { error: { message: "Refused.", code: "c" } };
  vi.stubGlobal("fetch", async () => Response.json(body, { status }));
  const queries = new QueryClient();
  queries.setQueryData(sessionQuery.queryKey, { signed_in: true } as never);
  const wrapper = ({ children }: { children: React.ReactNode }) => (
    <QueryClientProvider client={queries}>{children}</QueryClientProvider>
  );
  return { queries, hook: renderHook(() => useConversation(), { wrapper }) };
}

const MESSAGE = {
  surface: "chat",
  models: ["x", "y"],
  settings: NO_SETTINGS,
  text: "A",
  images: [],
  times: 1,
} as const;

it("asks for the session again when it has ended, and leaves no turn", async () => {
  const { queries, hook } = conversation(401);
  expect(await act(() => hook.result.current.ask(MESSAGE))).toBe(false);
  expect(hook.result.current.turns).toEqual([]);
  expect(hook.result.current.isRunning).toBe(false);
  expect(queries.getQueryState(sessionQuery.queryKey)?.isInvalidated).toBe(true);
});

it("keeps the turn of any other refusal", async () => {
  const { queries, hook } = conversation(404);
  expect(await act(() => hook.result.current.ask(MESSAGE))).toBe(true);
  expect(hook.result.current.turns).toHaveLength(1);
  expect(queries.getQueryState(sessionQuery.queryKey)?.isInvalidated).toBe(false);
});

it("continues each model's own conversation with its first answer", () => {
  const run = (text: string) => ({ ...NEW_RUN, answer: { ...NO_ANSWER, text } });
  const turns = [
    { text: "A", images: [], models: ["x", "y"], runs: [[run("")], [run("y1"), run("y2")]] },
    { text: "B", images: [], models: ["x", "y"], runs: [[run("x1")], [run("y3")]] },
  ];
  expect(historyOf(turns, 0)).toEqual([
    { role: "user", text: "B", images: [] },
    { role: "assistant", text: "x1" },
  ]);
  expect(historyOf(turns, 1).map((said) => said.text)).toEqual(["A", "y1", "B", "y3"]);
  expect(historyOf(turns, 2)).toEqual([]);
});
