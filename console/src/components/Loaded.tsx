import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Loading, Problem } from "./Notice";

interface LoadedProps<T> {
  query: UseQueryResult<T, unknown>;
  /** What loads: "the keys". */
  what: string;
  children: (data: T) => ReactNode;
}

/** The data of a query, or why there is none. Older data stays in sight when a repetition fails. */
export function Loaded<T>({ query, what, children }: LoadedProps<T>) {
  const problem = query.error ? <Problem error={query.error} onRetry={() => query.refetch()} /> : null;
  if (query.data === undefined) return problem ?? <Loading what={what} />;
  return (
    <>
      {problem}
      {children(query.data)}
    </>
  );
}
