import type { ReactNode } from "react";

const LOOKS = {
  plain: "bg-raised text-text",
  accent: "bg-tint text-accent",
  good: "bg-good-tint text-good",
  warn: "bg-warn-tint text-warn",
  bad: "bg-bad-tint text-bad",
} as const;

export type BadgeLook = keyof typeof LOOKS;

export function Badge({ look = "plain", children }: { look?: BadgeLook; children: ReactNode }) {
  return (
    <span
      className={`inline-flex rounded px-1.5 py-0.5 text-xs font-medium whitespace-nowrap ${LOOKS[look]}`}
    >
      {children}
    </span>
  );
}

/** The end of a request: `ok` or an error code. */
export function Status({ status }: { status: string }) {
  return <Badge look={status === "ok" ? "good" : "bad"}>{status}</Badge>;
}
