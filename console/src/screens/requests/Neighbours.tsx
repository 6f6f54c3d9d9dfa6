import { Link } from "@tanstack/react-router";
import type { RequestDetail } from "@/api/pending";
import { Status } from "@/components/Badge";
import { Empty } from "@/components/Notice";
import { type Column, DataTable } from "@/components/table/DataTable";
import { cost } from "@/format/numbers";
import { duration, utcMillis } from "@/format/time";

type Neighbour = NonNullable<RequestDetail["neighbours"]>[number];

const COLUMNS: readonly Column<Neighbour>[] = [
  {
    id: "at",
    header: "Time",
    value: (row) => row.at,
    cell: (row) =>
      row.is_this ? (
        <strong>{utcMillis(row.at)} (this one)</strong>
      ) : (
        <Link to="/requests/$requestId" params={{ requestId: row.request_id }} className="link">
          {utcMillis(row.at)}
        </Link>
      ),
  },
  {
    id: "status",
    header: "Status",
    value: (row) => row.status,
    cell: (row) => <Status status={row.status} />,
  },
  { id: "model", header: "Model", value: (row) => row.model },
  {
    id: "latency",
    header: "Latency",
    value: (row) => row.latency_ms,
    cell: (row) => duration(row.latency_ms),
    isNumber: true,
  },
  {
    id: "cost",
    header: "Cost",
    value: (row) => row.cost_usd,
    cell: (row) => cost(row.cost_usd),
    isNumber: true,
  },
];

/** The requests of the same session before and after this one, the oldest first. */
export function Neighbours({ request }: { request: RequestDetail }) {
  if (request.session === null) {
    return (
      <Empty title="No session.">
        <p>A client names one with the header x-gateway-session; agents send one of their own.</p>
      </Empty>
    );
  }
  return (
    <div className="flex flex-col gap-2">
      <p>
        Session <code>{request.session}</code>.{" "}
        <Link to="/requests" search={{ session: request.session }} className="link">
          All its requests
        </Link>
      </p>
      {request.neighbours ? (
        <DataTable
          label="Requests of the session"
          columns={COLUMNS}
          rows={request.neighbours}
          rowKey={(row) => row.request_id}
        />
      ) : null}
    </div>
  );
}
