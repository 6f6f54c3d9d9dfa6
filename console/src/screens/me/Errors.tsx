import { Link } from "@tanstack/react-router";
import { useRight } from "@/api/session";
import { Status } from "@/components/Badge";
import { Moment } from "@/components/Moment";
import { Empty } from "@/components/Notice";
import { type Column, DataTable } from "@/components/table/DataTable";
import type { Mine } from "./types";

type Failure = Mine["recent_errors"][number];

const COLUMNS: readonly Column<Failure>[] = [
  { id: "at", header: "Time", value: (row) => row.at, cell: (row) => <Moment at={row.at} /> },
  { id: "model", header: "Model", value: (row) => row.model },
  { id: "code", header: "Error", value: (row) => row.code, cell: (row) => <Status status={row.code} /> },
  {
    id: "request",
    header: "Request",
    value: (row) => row.request_id,
    cell: (row) => <RequestId id={row.request_id} />,
  },
];

function RequestId({ id }: { id: string }) {
  const mayRead = useRight("read");
  if (!mayRead) return <code>{id}</code>;
  return (
    <Link to="/requests/$requestId" params={{ requestId: id }} className="link">
      {id}
    </Link>
  );
}

/** The newest failed requests of the key. */
export function RecentErrors({ errors }: { errors: readonly Failure[] }) {
  return (
    <DataTable
      label="Recent errors"
      columns={COLUMNS}
      rows={errors}
      rowKey={(row) => row.request_id}
      csvName="recent-errors"
      empty={<Empty title="No failed requests." />}
    />
  );
}
