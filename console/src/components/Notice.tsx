import type { ReactNode } from "react";
import { ApiError, IN_STREAM, nextStep } from "@/api/errors";

const LOOKS = {
  info: "border-line bg-tint text-text",
  good: "border-good bg-good-tint text-good",
  warn: "border-warn bg-warn-tint text-warn",
  bad: "border-bad bg-bad-tint text-bad",
} as const;

interface NoticeProps {
  look?: keyof typeof LOOKS;
  children: ReactNode;
}

/** A message inside a page. */
export function Notice({ look = "info", children }: NoticeProps) {
  return (
    <div role={look === "bad" ? "alert" : "status"} className={`rounded-md border px-3 py-2 ${LOOKS[look]}`}>
      {children}
    </div>
  );
}

interface ProblemProps {
  /** What was thrown; nothing is shown without it. */
  error: unknown;
  /** Repeats what failed. */
  onRetry?: () => void;
}

/** An error in the API's own words, and what to do about it. */
export function Problem({ error: thrown, onRetry }: ProblemProps) {
  if (thrown === null || thrown === undefined) return null;
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  const step = nextStep(error);
  return (
    <Notice look="bad">
      <p className="font-medium break-words">{error.message}</p>
      {step ? <p>{step}</p> : null}
      {error instanceof ApiError ? (
        <p className="mt-1 font-mono text-xs">
          {error.status === IN_STREAM ? "in the stream" : error.status} {error.code}
          {error.requestId ? ` · ${error.requestId}` : ""}
        </p>
      ) : null}
      {onRetry ? (
        <button type="button" className="mt-1 font-medium underline" onClick={onRetry}>
          Repeat
        </button>
      ) : null}
    </Notice>
  );
}

interface EmptyProps {
  title: string;
  children?: ReactNode;
}

/** A place without content that says how it fills. */
export function Empty({ title, children }: EmptyProps) {
  return (
    <div className="card flex flex-col items-start gap-2 px-4 py-6">
      <p className="font-medium">{title}</p>
      {children ? <div className="flex flex-col items-start gap-2 text-muted">{children}</div> : null}
    </div>
  );
}

/** Says that something loads. */
export function Loading({ what = "" }: { what?: string }) {
  return (
    <p role="status" className="text-muted">
      {what ? `Loading ${what}…` : "Loading…"}
    </p>
  );
}
