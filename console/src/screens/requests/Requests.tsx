import { keepPreviousData } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { api } from "@/api/client";
import { Button } from "@/components/Button";
import { Empty, Loading, Notice, Problem } from "@/components/Notice";
import { Screen } from "@/components/Screen";
import { DataTable } from "@/components/table/DataTable";
import { count } from "@/format/numbers";
import { COLUMNS } from "./columns";
import { Filters } from "./Filters";
import { type LiveRequests, type LoggedRequest, useLiveRequests } from "./live";
import { FILTERS, type RequestsSearch } from "./search";

const route = getRouteApi("/requests");
const PAGE = 200;

type FilterValues = { [filter in (typeof FILTERS)[number]]?: string };

function filterValues(search: RequestsSearch): FilterValues {
  const values: FilterValues = {};
  for (const name of FILTERS) {
    const value = search[name];
    if (value !== undefined) values[name] = value;
  }
  return values;
}

/** The request log: filters, pages and what happens right now. */
export function Requests() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: Partial<RequestsSearch>) =>
    navigate({ search: (now) => ({ ...now, ...next }), replace: true, resetScroll: false });
  const isLive = search.live === "true";
  const filters = filterValues(search);
  const { since: _since, until: _until, ...liveFilters } = filters;
  const live = useLiveRequests(liveFilters, isLive);
  const log = useLog(filters);
  const rows = useMemo(() => merged(live.rows, log.data?.pages ?? []), [live.rows, log.data]);

  const searched = log.data?.pages.reduce((sum, page) => sum + (page.searched ?? 0), 0) ?? 0;

  return (
    <Screen
      title="Requests"
      lead="Every request that ended, the newest first. A request is here some 100 ms after its answer."
      actions={
        <>
          <Button
            aria-pressed={isLive}
            look={isLive ? "primary" : "plain"}
            onClick={() => change({ live: isLive ? undefined : "true" })}
          >
            Live
          </Button>
          <Button onClick={() => log.refetch()}>Load again</Button>
        </>
      }
    >
      <Filters search={search} onChange={change} />
      {isLive ? (
        <LiveState
          live={live}
          onRepeat={() => {
            live.repeat();
            // What ended meanwhile is in the log.
            log.refetch();
          }}
        />
      ) : null}
      <Problem error={log.error} onRetry={log.refetch} />
      {log.isPending ? <Loading what="the requests" /> : null}
      {log.data || live.rows.length > 0 ? (
        <DataTable
          label="Requests"
          columns={COLUMNS}
          rows={rows}
          rowKey={(row) => row.request_id}
          sort={search.sort}
          onSort={(sort) => change({ sort })}
          csvName="requests"
          empty={<NoRequests hasFilters={Object.keys(filters).length > 0} mayHaveMore={log.hasNextPage} />}
        />
      ) : null}
      {log.hasNextPage ? (
        <div className="flex items-center gap-3">
          <Button onClick={() => log.fetchNextPage()} disabled={log.isFetchingNextPage}>
            Load older requests
          </Button>
          <span className="text-muted">
            {count(rows.length)} loaded
            {searched > 0 ? `, ${count(searched)} searched` : ""}
          </span>
        </div>
      ) : null}
    </Screen>
  );
}

function useLog(filters: FilterValues) {
  return api.useInfiniteQuery(
    "get",
    "/admin/v1/requests",
    { params: { query: { ...filters, limit: PAGE } } },
    {
      pageParamName: "after",
      initialPageParam: null,
      getNextPageParam: (page: { next: string | null }) => page.next,
      placeholderData: keepPreviousData,
      // Rows never change, so comparing each page with its older self would be wasted work.
      structuralSharing: false,
    },
  );
}

/** Live rows, then the pages of the log, each request once. */
function merged(
  live: readonly LoggedRequest[],
  pages: readonly { data: LoggedRequest[] }[],
): LoggedRequest[] {
  const seen = new Set<string>();
  const rows: LoggedRequest[] = [];
  for (const row of [...live, ...pages.flatMap((page) => page.data)]) {
    if (seen.has(row.request_id)) continue;
    seen.add(row.request_id);
    rows.push(row);
  }
  return rows;
}

const STATES: Record<LiveRequests["state"], string> = {
  off: "",
  connecting: "Connecting to the live requests…",
  open: "Live: requests appear as they end.",
  silent: "The gateway does not answer.",
  lost: "The live connection ended.",
};

interface LiveStateProps {
  live: LiveRequests;
  onRepeat: () => void;
}

function LiveState({ live, onRepeat }: LiveStateProps) {
  if (live.state === "silent" || live.state === "lost") {
    return (
      <Notice look="bad">
        <p className="font-medium">{STATES[live.state]}</p>
        {live.state === "silent" ? <p>The page tries again every few seconds.</p> : null}
        <button type="button" className="mt-1 font-medium underline" onClick={onRepeat}>
          Repeat
        </button>
      </Notice>
    );
  }
  return (
    <p role="status" className="text-muted">
      {STATES[live.state]}
      {live.dropped > 0
        ? ` ${count(live.dropped)} requests came too fast to be shown; load again to see them.`
        : ""}
    </p>
  );
}

interface NoRequestsProps {
  hasFilters: boolean;
  /** Whether only the newest part of the log was searched. */
  mayHaveMore: boolean;
}

function NoRequests({ hasFilters, mayHaveMore }: NoRequestsProps) {
  if (mayHaveMore) {
    return (
      <Empty title="No match among the requests that were searched.">
        <p>Older requests may match. Load them, or choose a range.</p>
      </Empty>
    );
  }
  if (hasFilters) {
    return (
      <Empty title="No request matches these filters.">
        <Link to="/requests" className="link">
          Remove all filters
        </Link>
      </Empty>
    );
  }
  return (
    <Empty title="No requests yet.">
      <p>Set up a client, or send a message in the playground.</p>
      <Link to="/clients" className="link">
        Set up a client
      </Link>
    </Empty>
  );
}
