import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState } from "react";
import { lookAtSession } from "@/api/session";
import { bodyOf, type Said, type Settings, type Surface } from "./draft";
import { isWithoutSession, NEW_RUN, type Run, send } from "./run";
import type { Turn } from "./stored";

export interface Outgoing {
  surface: Surface;
  models: readonly string[];
  settings: Settings;
  text: string;
  images: readonly string[];
  /** How often each model is asked. */
  times: number;
}

/** What a model has said and heard: of each message the first answer, if it has one. */
export function historyOf(turns: readonly Turn[], column: number): Said[] {
  return turns.flatMap((turn): Said[] => {
    const first = turn.runs[column]?.find((run) => run.answer.text !== "");
    if (!first) return [];
    return [
      { role: "user", text: turn.text, images: turn.images },
      { role: "assistant", text: first.answer.text },
    ];
  });
}

function withRun(
  turns: readonly Turn[],
  place: [turn: number, column: number, time: number],
  run: Run,
): Turn[] {
  const [at, column, time] = place;
  return turns.map((turn, index) =>
    index === at
      ? {
          ...turn,
          runs: turn.runs.map((runs, c) =>
            c === column ? runs.map((other, t) => (t === time ? run : other)) : runs,
          ),
        }
      : turn,
  );
}

/** The messages of a conversation and their answers, which arrive at the same time. */
export function useConversation() {
  const [turns, setTurns] = useState<readonly Turn[]>([]);
  const [isRunning, setRunning] = useState(false);
  const queries = useQueryClient();
  const stopper = useRef<AbortController | null>(null);
  useEffect(() => () => stopper.current?.abort(), []);

  const stop = useCallback(() => stopper.current?.abort(), []);

  /** Begins anew with `next`. */
  const replace = useCallback((next: readonly Turn[]) => {
    stopper.current?.abort();
    setTurns(next);
  }, []);

  /**
   * Sends a message to every model, and tells whether it was taken: without a session it is not, and leaves no turn. It
   * throws a `SettingProblem` before anything is sent.
   */
  async function ask(outgoing: Outgoing): Promise<boolean> {
    const { surface, models, settings, text, images, times } = outgoing;
    const said: Said = { role: "user", text, images };
    const bodies = models.map((model, column) =>
      bodyOf(surface, model, [...historyOf(turns, column), said], settings),
    );
    const controller = new AbortController();
    stopper.current = controller;
    const at = turns.length;
    const runs = models.map(() => Array.from({ length: times }, () => NEW_RUN));
    setTurns([...turns, { text, images, models, runs }]);
    setRunning(true);
    const calls = bodies.flatMap((body, column) =>
      Array.from({ length: times }, (_, time) =>
        send(surface, body, controller.signal, (run) => {
          if (stopper.current !== controller) return;
          setTurns((now) => withRun(now, [at, column, time], run));
        }),
      ),
    );
    const ended = await Promise.all(calls);
    const refused = ended.filter(isWithoutSession);
    const isTaken = refused.length < ended.length;
    if (stopper.current === controller) {
      setRunning(false);
      if (!isTaken) setTurns(turns);
    }
    lookAtSession(queries, refused[0]?.error ?? null);
    return isTaken;
  }

  return { turns, isRunning, ask, stop, replace };
}
