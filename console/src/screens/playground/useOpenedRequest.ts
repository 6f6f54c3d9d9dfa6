import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { client } from "@/api/client";
import { useRight } from "@/api/session";
import { NO_ANSWER } from "./answer";
import type { Said, Settings } from "./draft";
import { openedOf } from "./opened";
import { NEW_RUN } from "./run";
import type { Turn } from "./stored";

const route = getRouteApi("/playground");

interface OpenedRequest {
  settings: Settings;
  turns: readonly Turn[];
  message: { text: string; images: readonly string[] };
}

/** The messages before the last one as turns of one column. */
export function turnsOf(said: readonly Said[], model: string): Turn[] {
  const turns: Turn[] = [];
  for (const [index, message] of said.entries()) {
    const answer = said[index + 1];
    if (message.role !== "user" || answer?.role !== "assistant") continue;
    const run = { ...NEW_RUN, state: "done" as const, answer: { ...NO_ANSWER, text: answer.text } };
    turns.push({ text: message.text, images: message.images ?? [], models: [model], runs: [[run]] });
  }
  return turns;
}

/** Opens the logged request of the address once. */
export function useOpenedRequest(onOpen: (request: OpenedRequest) => void) {
  const { request: id, models } = route.useSearch();
  const navigate = route.useNavigate();
  const mayRead = useRight("read");
  const openedId = useRef<string | undefined>(undefined);
  const query = useQuery({
    queryKey: ["get", "/admin/v1/requests/{request_id}", id],
    enabled: id !== undefined && mayRead,
    queryFn: async ({ signal }) => {
      const params = { path: { request_id: id ?? "" } };
      const { data } = await client.GET("/admin/v1/requests/{request_id}", { params, signal });
      return data;
    },
  });
  const opened = query.data ? openedOf(query.data) : undefined;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a request is opened once
  useEffect(() => {
    if (!opened || !query.data || openedId.current === id) return;
    openedId.current = id;
    const lastAt = opened.said.findLastIndex((said) => said.role === "user");
    const last = opened.said[lastAt];
    const model = modelOf(models, query.data.requested_model);
    onOpen({
      settings: opened.settings,
      turns: turnsOf(opened.said.slice(0, Math.max(lastAt, 0)), model),
      message: { text: last?.text ?? "", images: last?.images ?? [] },
    });
    const surface = opened.surface === "chat" ? undefined : opened.surface;
    navigate({ search: (now) => ({ ...now, surface, models: models ?? model }), replace: true });
  }, [query.data]);
  if (id === undefined) return { note: null, isProblem: false };
  if (query.error) return { note: query.error.message, isProblem: true };
  if (!opened) return { note: null, isProblem: false };
  return opened.said.length > 0
    ? { note: `This is the prompt of ${id}. Send it again, or change it first.`, isProblem: false }
    : { note: `The prompt of ${id} was not kept. Its model and its API are chosen.`, isProblem: true };
}

function modelOf(models: string | undefined, requested: string): string {
  return models?.split(",")[0] ?? requested;
}
