import { Link } from "@tanstack/react-router";
import { Badge, Status } from "@/components/Badge";
import type { Column } from "@/components/table/DataTable";
import { cost, count } from "@/format/numbers";
import { duration, utcMillis } from "@/format/time";
import type { LoggedRequest } from "./live";

/** The columns of the request log. */
export const COLUMNS: readonly Column<LoggedRequest>[] = [
  {
    id: "at",
    header: "Time (UTC)",
    value: (row) => row.at,
    cell: (row) => (
      <Link
        to="/requests/$requestId"
        params={{ requestId: row.request_id }}
        className="link tabular-nums"
        title={`${row.at} ${row.request_id}`}
      >
        {utcMillis(row.at).slice(0, 23)}
      </Link>
    ),
  },
  {
    id: "status",
    header: "Status",
    value: (row) => row.status,
    cell: (row) => <Status status={row.status} />,
  },
  {
    id: "model",
    header: "Model",
    value: (row) => row.model ?? row.requested_model,
    cell: (row) => <ModelCell row={row} />,
  },
  { id: "key", header: "Key", value: (row) => row.key_name || row.key },
  { id: "team", header: "Team", value: (row) => row.team },
  { id: "surface", header: "Surface", value: (row) => row.surface },
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
    cell: (row) => cost(row.cost_usd, row.unpriced ?? false),
    isNumber: true,
  },
  {
    id: "latency",
    header: "Latency",
    value: (row) => row.latency_ms,
    cell: (row) => duration(row.latency_ms),
    isNumber: true,
  },
  {
    id: "ttft",
    header: "First token",
    value: (row) => row.ttft_ms,
    cell: (row) => duration(row.ttft_ms),
    isNumber: true,
  },
  { id: "session", header: "Session", value: (row) => row.session },
  {
    id: "id",
    header: "Request",
    value: (row) => row.request_id,
    cell: (row) => <span className="font-mono text-xs text-muted">{row.request_id}</span>,
  },
];

function ModelCell({ row }: { row: LoggedRequest }) {
  return (
    <span className="inline-flex items-center gap-1.5" title={`asked for ${row.requested_model}`}>
      {row.model ?? row.requested_model}
      {row.fallback_used ? <Badge look="warn">fallback</Badge> : null}
      {row.cache_hit ? <Badge look="accent">cache</Badge> : null}
    </span>
  );
}
