import { type Answer, NO_ANSWER } from "./answer";
import type { Settings, Surface } from "./draft";
import type { Run } from "./run";

/** One message and its answers: a list of runs for each model. */
export interface Turn {
  text: string;
  images: readonly string[];
  models: readonly string[];
  runs: readonly (readonly Run[])[];
}

/** A conversation, which stays in this browser. */
export interface Conversation {
  id: string;
  at: string;
  surface: Surface;
  models: readonly string[];
  settings: Settings;
  turns: readonly Turn[];
}

const MOST = 30;

function placeOf(owner: string): string {
  return `model-gateway.playground.${owner}`;
}

/** The conversations of the key `owner` in this browser, the newest first. */
export function storedConversations(owner: string): Conversation[] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(placeOf(owner)) ?? "[]");
    return Array.isArray(stored) ? stored : [];
  } catch {
    return [];
  }
}

/** What is kept of a run: its texts and figures. */
function keptRun(run: Run): Run {
  const answer: Answer = { ...NO_ANSWER, ...run.answer };
  return { ...run, answer, state: run.state === "running" ? "stopped" : run.state, error: null };
}

/** A conversation as it is kept: without images, which would fill the browser's storage. */
function kept(conversation: Conversation): Conversation {
  return {
    ...conversation,
    turns: conversation.turns.map((turn) => ({
      ...turn,
      images: [],
      runs: turn.runs.map((runs) => runs.map(keptRun)),
    })),
  };
}

/** Keeps a conversation. It answers with all of them, and drops the oldest ones when the storage is full. */
export function keep(owner: string, conversation: Conversation): Conversation[] {
  const others = storedConversations(owner).filter((other) => other.id !== conversation.id);
  let all = [kept(conversation), ...others].slice(0, MOST);
  while (all.length > 0) {
    try {
      localStorage.setItem(placeOf(owner), JSON.stringify(all));
      return all;
    } catch {
      all = all.slice(0, -1);
    }
  }
  return all;
}

/** Forgets every conversation of `owner`. */
export function forgetAll(owner: string): void {
  localStorage.removeItem(placeOf(owner));
}

/** The first words of a conversation. */
export function titleOf(conversation: Conversation): string {
  const text = conversation.turns[0]?.text.trim().replaceAll(/\s+/g, " ") ?? "";
  return text.length > 60 ? `${text.slice(0, 59)}…` : text || "Without a text";
}
