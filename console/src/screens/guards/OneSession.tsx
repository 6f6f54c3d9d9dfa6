import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { api } from "@/api/client";
import { buttonClass } from "@/components/Button";
import { Facts } from "@/components/Facts";
import { Loaded } from "@/components/Loaded";
import { Empty, Notice } from "@/components/Notice";
import { DataTable } from "@/components/table/DataTable";
import { count, usd } from "@/format/numbers";
import { duration, utc } from "@/format/time";
import { COLUMNS } from "../requests/columns";
import type { LoggedRequest } from "../requests/live";
import { totalOf } from "./Sessions";

const MOST = 1000;

/** How long a session lasted: from the begin of its first request to the end of its last one. */
export function lastsMs(rows: readonly Pick<LoggedRequest, "at" | "latency_ms">[]): number | null {
  const [first, last] = [rows[0], rows.at(-1)];
  if (!first || !last) return null;
  return Date.parse(last.at) - Date.parse(first.at) + first.latency_ms;
}

/** The requests of one session in the order of time. */
export function OneSession({ session }: { session: string }) {
  const log = api.useQuery("get", "/admin/v1/requests", { params: { query: { session, limit: MOST } } });
  const rows = useMemo(() => (log.data?.data ?? []).toReversed(), [log.data]);
  // The figures are those of every other report.
  const usage = api.useQuery("get", "/admin/v1/usage", { params: { query: { by: "session", session } } });
  const sums = totalOf(usage.data);
  return (
    <div className="flex flex-col gap-4">
      <div className="flex flex-wrap items-center gap-3">
        <Link to="/guards" search={(now) => ({ ...now, session: undefined })} className="link">
          All sessions
        </Link>
        <Link to="/requests" search={{ session }} className={buttonClass()}>
          Open in the request log
        </Link>
      </div>
      <Loaded query={log} what="the requests of the session">
        {(data) => (
          <>
            {data.has_more ? <Notice look="warn">These are its newest {count(MOST)} requests.</Notice> : null}
            <Facts
              facts={[
                { label: "Began", value: rows[0] ? utc(rows[0].at) : "–" },
                { label: "Lasted", value: duration(lastsMs(rows)) },
                { label: "Requests", value: count(sums?.requests) },
                { label: "Failed", value: count(sums?.failed) },
                { label: "Tokens", value: count(sums?.total_tokens) },
                { label: "Cost", value: usd(sums?.cost_usd) },
                { label: "Unpriced requests", value: count(sums?.unpriced_requests) },
              ]}
            />
            <DataTable
              label={`Requests of ${session}, the oldest first`}
              columns={COLUMNS}
              rows={rows}
              rowKey={(row) => row.request_id}
              csvName="session"
              empty={<Empty title="The log has no request of this session." />}
            />
          </>
        )}
      </Loaded>
    </div>
  );
}
