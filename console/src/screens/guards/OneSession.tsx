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

const MOST = 1000;

/** What the requests of a session add up to. */
export function sumsOf(rows: readonly LoggedRequest[]) {
  const first = rows[0];
  const last = rows.at(-1);
  const ended = last ? Date.parse(last.at) : Number.NaN;
  const began = first ? Date.parse(first.at) - first.latency_ms : Number.NaN;
  return {
    failed: rows.filter((row) => row.status !== "ok").length,
    tokens: rows.reduce((sum, row) => sum + row.total_tokens, 0),
    costUsd: rows.reduce((sum, row) => sum + (row.cost_usd ?? 0), 0),
    unpriced: rows.filter((row) => row.cost_usd === null || row.unpriced).length,
    lastsMs: Number.isNaN(began) ? null : ended - began,
  };
}

/** The requests of one session in the order of time. */
export function OneSession({ session }: { session: string }) {
  const log = api.useQuery("get", "/admin/v1/requests", { params: { query: { session, limit: MOST } } });
  const rows = useMemo(() => (log.data?.data ?? []).toReversed(), [log.data]);
  const sums = sumsOf(rows);
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
                { label: "Lasted", value: duration(sums.lastsMs) },
                { label: "Requests", value: count(rows.length) },
                { label: "Failed", value: count(sums.failed) },
                { label: "Tokens", value: count(sums.tokens) },
                { label: "Cost", value: usd(sums.costUsd) },
                { label: "Unpriced requests", value: count(sums.unpriced) },
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
