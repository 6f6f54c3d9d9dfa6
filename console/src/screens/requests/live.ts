import { useQueryClient } from "@tanstack/react-query";
import { startTransition, useEffect, useState } from "react";
import { apiUrl, type Schemas } from "@/api/client";
import { sessionQuery } from "@/api/session";

export type LoggedRequest = Schemas["LoggedRequest"];

export interface LiveRequests {
  /** The newest first. */
  rows: readonly LoggedRequest[];
  /** Rows that the gateway left out because this page was too slow. */
  dropped: number;
  /** `silent`: the gateway does not answer, and the browser asks again by itself. */
  state: "off" | "connecting" | "open" | "silent" | "lost";
  /** Connects anew at once. */
  repeat: () => void;
}

/** How many live rows the page keeps. */
const MOST_ROWS = 500;
/** Rows are shown in batches, so that a busy gateway does not keep the page busy. */
const BATCH_MS = 250;
type Received = Omit<LiveRequests, "repeat">;
const OFF: Received = { rows: [], dropped: 0, state: "off" };

/** The state after a failure of the connection. A stream that ended is opened again: only the next failure means silence. */
export function afterFailure(state: LiveRequests["state"], isClosed: boolean): LiveRequests["state"] {
  if (isClosed) return "lost";
  return state === "open" ? "connecting" : "silent";
}

/** Puts new rows, the oldest of them first, before the rows that are shown. */
export function prepend(
  shown: readonly LoggedRequest[],
  fresh: readonly LoggedRequest[],
): readonly LoggedRequest[] {
  return [...fresh.toReversed(), ...shown].slice(0, MOST_ROWS);
}

function parse<T>(event: MessageEvent<unknown>): T | undefined {
  try {
    return JSON.parse(String(event.data));
  } catch {
    return undefined;
  }
}

/** The requests as they end, over one stream of events. */
export function useLiveRequests(filters: Record<string, string | undefined>, isOn: boolean): LiveRequests {
  const [live, setLive] = useState<Received>(OFF);
  const [attempt, setAttempt] = useState(0);
  const queries = useQueryClient();
  const address = apiUrl("/admin/v1/requests/live", filters);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another attempt connects anew
  useEffect(() => {
    if (!isOn) {
      setLive(OFF);
      return;
    }
    setLive({ ...OFF, state: "connecting" });
    let fresh: LoggedRequest[] = [];
    let dropped = 0;
    const source = new EventSource(address);
    source.addEventListener("open", () => setLive((now) => ({ ...now, state: "open" })));
    source.addEventListener("error", () => {
      const isClosed = source.readyState === EventSource.CLOSED;
      setLive((now) => ({ ...now, state: afterFailure(now.state, isClosed) }));
      // A stream that cannot be opened again may mean that the session has ended.
      queries.invalidateQueries({ queryKey: sessionQuery.queryKey });
    });
    source.addEventListener("request", (event) => {
      const row = parse<LoggedRequest>(event);
      if (row) fresh.push(row);
    });
    source.addEventListener("dropped", (event) => {
      dropped += parse<{ dropped: number }>(event)?.dropped ?? 0;
    });
    const timer = setInterval(() => {
      if (fresh.length === 0 && dropped === 0) return;
      const [rows, lost] = [fresh, dropped];
      fresh = [];
      dropped = 0;
      // A transition is drawn in small steps, so typing and clicking go first.
      startTransition(() =>
        setLive((now) => ({ ...now, rows: prepend(now.rows, rows), dropped: now.dropped + lost })),
      );
    }, BATCH_MS);
    return () => {
      clearInterval(timer);
      source.close();
    };
  }, [address, isOn, queries, attempt]);
  return { ...live, repeat: () => setAttempt((now) => now + 1) };
}
