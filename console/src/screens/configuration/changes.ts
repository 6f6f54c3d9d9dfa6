import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { bodyOf, client, type Schemas } from "@/api/client";
import type { Value } from "./value";

export type ListSection = "aliases" | "providers" | "models" | "budgets" | "alerts";
export type TableSection = "routing" | "cache" | "timeouts" | "responses";
export type Change = Schemas["ConfigChange"];

/** The name of one entry of each section. */
export const KINDS = {
  aliases: "alias",
  providers: "provider",
  models: "model",
  budgets: "rule",
  alerts: "alert",
} as const satisfies Record<ListSection, string>;

/** The article of a noun. */
export function article(noun: string): string {
  return /^[aeiou]/.test(noun) ? "an" : "a";
}

/** What is changed: an entry of a list, or a table. */
export type Subject =
  | { section: ListSection; name: string; version: number }
  | { section: TableSection; name?: undefined; version: number };

function parameters(subject: Subject, isDryRun: boolean) {
  return {
    query: isDryRun ? { dry_run: true } : {},
    header: { "If-Match": `"${subject.version}"` },
  };
}

/** Replaces a value, or only checks the change. No value deletes it. */
function send(subject: Subject, value: Value | null, isDryRun: boolean): Promise<Change> {
  const rest = parameters(subject, isDryRun);
  if (subject.name !== undefined) {
    const params = { ...rest, path: { section: subject.section, name: subject.name } };
    const url = "/admin/v1/config/{section}/{name}";
    return bodyOf(value === null ? client.DELETE(url, { params }) : client.PUT(url, { params, body: value }));
  }
  const params = { ...rest, path: { section: subject.section } };
  const url = "/admin/v1/config/{section}";
  return bodyOf(value === null ? client.DELETE(url, { params }) : client.PUT(url, { params, body: value }));
}

/** A value that follows another one when that has rested for a moment. */
function useRested<T>(value: T): T {
  const [rested, setRested] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setRested(value), 300);
    return () => clearTimeout(timer);
  }, [value]);
  return rested;
}

/** What the gateway says about a change before it is made. The text of the value decides when to ask again. */
export function useDryRun(subject: Subject, value: Value | null, isChanged: boolean) {
  const text = useRested(JSON.stringify(value));
  const isReady = isChanged && text === JSON.stringify(value) && subject.name !== "";
  return useQuery({
    queryKey: ["dry run", subject, text],
    queryFn: () => send(subject, value, true),
    enabled: isReady,
    retry: false,
    staleTime: 0,
  });
}

function useReload() {
  const queries = useQueryClient();
  return () =>
    queries.invalidateQueries({
      predicate: ({ queryKey }) => String(queryKey[1]).startsWith("/admin/v1/config"),
    });
}

export function useSave() {
  const reload = useReload();
  return useMutation({
    mutationFn: ({ subject, value }: { subject: Subject; value: Value | null }) =>
      send(subject, value, false),
    onSuccess: reload,
  });
}

/** Undoes a change: one by its version, or the newest. */
export function useUndo() {
  const reload = useReload();
  return useMutation({
    mutationFn: (version: number | undefined) =>
      bodyOf(client.POST("/admin/v1/config/undo", { body: version === undefined ? {} : { version } })),
    onSuccess: reload,
  });
}

export function useReloadFile() {
  const reload = useReload();
  return useMutation({ mutationFn: () => client.POST("/admin/v1/reload"), onSuccess: reload });
}
