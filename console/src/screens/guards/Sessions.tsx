import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { api, type Schemas } from "@/api/client";
import { Loaded } from "@/components/Loaded";
import { Empty } from "@/components/Notice";
import { RangePicker } from "@/components/RangePicker";
import { type Column, DataTable } from "@/components/table/DataTable";
import { count, usd } from "@/format/numbers";
import type { GuardsSearch } from "./search";

type SessionSums = Schemas["UsageSums"] & { session: string };

interface SessionsProps {
  search: GuardsSearch;
  onChange: (next: Partial<GuardsSearch>) => void;
}

/** The rows of a report that have a session. */
export function sessionsOf(report: unknown): SessionSums[] {
  if (typeof report !== "object" || report === null || !("data" in report) || !Array.isArray(report.data))
    return [];
  return report.data.filter((row) => typeof row?.session === "string");
}

/** The total of a report. */
export function totalOf(report: unknown): Schemas["UsageSums"] | undefined {
  const isReport = typeof report === "object" && report !== null && "total" in report;
  return isReport ? (report as { total: Schemas["UsageSums"] }).total : undefined;
}

/** The sessions of a span with what each of them did and cost. */
export function Sessions({ search, onChange }: SessionsProps) {
  const usage = api.useQuery("get", "/admin/v1/usage", {
    params: {
      query: {
        by: "session",
        since: search.since ?? "24h",
        ...(search.until ? { until: search.until } : {}),
      },
    },
  });
  const rows = useMemo(() => sessionsOf(usage.data), [usage.data]);
  return (
    <div className="flex flex-col gap-4">
      <RangePicker range={search} fallback="24h" onChange={onChange} />
      <Loaded query={usage} what="the sessions">
        {() => (
          <DataTable
            label="Sessions"
            columns={COLUMNS}
            rows={rows}
            rowKey={(row) => row.session}
            sort={search.sort ?? "cost.desc"}
            onSort={(sort) => onChange({ sort })}
            csvName="sessions"
            empty={<NoSessions />}
          />
        )}
      </Loaded>
    </div>
  );
}

function NoSessions() {
  return (
    <Empty title="No session in this span.">
      <p>
        A session is one run of an agent. Claude Code and Codex name theirs; other clients send the header{" "}
        <code>x-gateway-session</code>.
      </p>
      <Link to="/clients" className="link">
        Set up a client
      </Link>
    </Empty>
  );
}

const COLUMNS: readonly Column<SessionSums>[] = [
  {
    id: "session",
    header: "Session",
    value: (row) => row.session,
    cell: (row) => (
      <Link to="/guards" search={(now: GuardsSearch) => ({ ...now, session: row.session })} className="link">
        {row.session}
      </Link>
    ),
  },
  {
    id: "requests",
    header: "Requests",
    value: (row) => row.requests,
    cell: (row) => count(row.requests),
    isNumber: true,
  },
  {
    id: "failed",
    header: "Failed",
    value: (row) => row.failed,
    cell: (row) => count(row.failed),
    isNumber: true,
  },
  {
    id: "tokens",
    header: "Tokens",
    value: (row) => row.total_tokens,
    cell: (row) => count(row.total_tokens),
    isNumber: true,
  },
  {
    id: "cost",
    header: "Cost",
    value: (row) => row.cost_usd,
    cell: (row) => usd(row.cost_usd),
    isNumber: true,
  },
  {
    id: "unpriced",
    header: "Unpriced requests",
    value: (row) => row.unpriced_requests,
    cell: (row) => count(row.unpriced_requests),
    isNumber: true,
  },
];
