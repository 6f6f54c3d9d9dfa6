import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import { type Session, sessionQuery } from "@/api/session";
import { AnswerCard } from "./AnswerCard";
import { NO_ANSWER } from "./answer";
import { NEW_RUN, type Run } from "./run";

const SESSION: Session = {
  object: "session",
  signed_in: true,
  ways: { key: true, link: true, oidc: null },
  host: "127.0.0.1",
  host_is_known: true,
  can_keep_cookie: true,
  advice: null,
  role: "inference",
  rights: { read: false, operate: false, configure: false, generate: true, read_payloads: false },
};

function show(run: Run): HTMLElement {
  const queries = new QueryClient();
  queries.setQueryData(sessionQuery.queryKey, SESSION);
  return render(
    <QueryClientProvider client={queries}>
      <AnswerCard model="demo/chat" run={run} />
    </QueryClientProvider>,
  ).container;
}

afterEach(cleanup);

it("shows markup of a model as text, in the answer, its reasoning, its tools and its errors", () => {
  const markup = '<img src="x" onerror="alert(1)"><script>alert(2)</script>';
  const page = show({
    ...NEW_RUN,
    state: "failed",
    error: new Error(markup),
    answer: {
      ...NO_ANSWER,
      text: markup,
      reasoning: markup,
      tools: { 0: { name: markup, arguments: markup } },
      warnings: [markup],
    },
  });
  expect(page.querySelectorAll("img, script")).toHaveLength(0);
  expect(screen.getAllByText(markup).length).toBeGreaterThanOrEqual(5);
});

it("shows the figures of an answer", () => {
  show({
    ...NEW_RUN,
    state: "done",
    ttftMs: 120,
    totalMs: 1120,
    answer: { ...NO_ANSWER, text: "Hi", promptTokens: 3, completionTokens: 50, costUsd: 0.25 },
  });
  const figures = screen.getAllByRole("definition").map((figure) => figure.textContent);
  expect(figures).toEqual(["120 ms", "50 tokens/s", "1,120 ms", "3 + 50", "$0.25"]);
});
