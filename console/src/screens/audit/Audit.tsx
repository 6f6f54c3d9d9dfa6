import { keepPreviousData } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { api, apiUrl, type Paths } from "@/api/client";
import { Badge } from "@/components/Badge";
import { Button, buttonClass } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { Select, TextField } from "@/components/Field";
import { Empty, Loading, Problem } from "@/components/Notice";
import { RangePicker } from "@/components/RangePicker";
import { Screen } from "@/components/Screen";
import { type Column, DataTable } from "@/components/table/DataTable";
import { count } from "@/format/numbers";
import { utc, utcMillis } from "@/format/time";
import { Diff } from "../configuration/Diff";
import { type AuditSearch, FILTERS } from "./search";
import { actionOptions, actionWords } from "./words";

const route = getRouteApi("/audit");
const PAGE = 200;

type Page = Paths["/admin/v1/audit"]["get"]["responses"]["200"]["content"]["application/json"];
type AuditRow = Page["data"][number];

function isPage(page: unknown): page is Page {
  return typeof page === "object" && page !== null && "head" in page;
}

/** Every change of the gateway: who made it, when, and what it was before and after. */
export function Audit() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: Partial<AuditSearch>) =>
    navigate({ search: (now) => ({ ...now, ...next }), replace: true, resetScroll: false });
  const filters = Object.fromEntries(FILTERS.flatMap((name) => (search[name] ? [[name, search[name]]] : [])));
  const log = useAudit(filters);
  const pages = useMemo(() => (log.data?.pages ?? []).filter(isPage), [log.data]);
  const rows = useMemo(() => pages.flatMap((page) => page.data), [pages]);
  const shown = rows.find((row) => String(row.seq) === search.row);
  return (
    <Screen
      title="Audit"
      lead="Every change, the newest first. Rows cannot be changed or deleted, and each one's hash covers the row before it."
      actions={
        <a
          href={apiUrl("/admin/v1/audit", { ...filters, format: "csv", limit: "1000" })}
          download="audit.csv"
          className={buttonClass()}
        >
          CSV
        </a>
      }
    >
      <Filters search={search} onChange={change} />
      <Problem error={log.error} onRetry={log.refetch} />
      {log.isPending ? <Loading what="the audit log" /> : null}
      {pages[0] ? <Head head={pages[0].head} /> : null}
      {log.data ? (
        <DataTable
          label="Changes"
          columns={COLUMNS}
          rows={rows}
          rowKey={(row) => String(row.seq)}
          empty={<Empty title="No change matches these filters." />}
        />
      ) : null}
      {log.hasNextPage ? (
        <div className="flex items-center gap-3">
          <Button onClick={() => log.fetchNextPage()} disabled={log.isFetchingNextPage}>
            Load older changes
          </Button>
          <span className="text-muted">{count(rows.length)} loaded</span>
        </div>
      ) : null}
      {shown ? <Change row={shown} onClose={() => change({ row: undefined })} /> : null}
    </Screen>
  );
}

function useAudit(filters: Record<string, string>) {
  return api.useInfiniteQuery(
    "get",
    "/admin/v1/audit",
    { params: { query: { ...filters, limit: PAGE } } },
    {
      pageParamName: "after",
      initialPageParam: null,
      getNextPageParam: (page: unknown) => (isPage(page) ? page.next : null),
      placeholderData: keepPreviousData,
      structuralSharing: false,
    },
  );
}

const COLUMNS: readonly Column<AuditRow>[] = [
  { id: "seq", header: "Row", value: (row) => row.seq, cell: (row) => count(row.seq), isNumber: true },
  { id: "at", header: "Time (UTC)", value: (row) => row.at, cell: (row) => utc(row.at).replace(" UTC", "") },
  {
    id: "actor",
    header: "Actor",
    value: (row) => row.actor.name || row.actor.id,
    cell: (row) => (
      <span title={row.actor.id}>
        {row.actor.name || row.actor.id} <Badge>{row.actor.kind.replace("_", " ")}</Badge>
      </span>
    ),
  },
  {
    id: "action",
    header: "Action",
    value: (row) => row.action,
    cell: (row) => <span title={row.action}>{actionWords(row.action)}</span>,
  },
  { id: "object", header: "Object", value: (row) => row.target, cell: (row) => <code>{row.target}</code> },
  { id: "address", header: "Address", value: (row) => row.actor.address },
  {
    id: "change",
    header: "Change",
    value: (row) => row.hash,
    cell: (row) => (
      <Link
        to="/audit"
        search={(now: AuditSearch) => ({ ...now, row: String(row.seq) })}
        replace
        resetScroll={false}
        className="link"
        aria-label={`See change ${row.seq}`}
      >
        See
      </Link>
    ),
  },
];

/** The newest hash of the whole log, which a reader can keep elsewhere. */
function Head({ head }: { head: Page["head"] }) {
  return (
    <p className="break-words text-muted">
      Head: row {count(head.seq)}, hash <code className="break-all">{head.hash}</code>. Keep it elsewhere, and{" "}
      <code>model-gateway audit --verify</code> shows whether anybody altered the log.
    </p>
  );
}

interface FiltersProps {
  search: AuditSearch;
  onChange: (next: Partial<AuditSearch>) => void;
}

function Filters({ search, onChange }: FiltersProps) {
  const isFiltered = FILTERS.some((name) => search[name] !== undefined);
  return (
    <div className="card flex flex-wrap items-end gap-3 p-4">
      <RangePicker range={search} fallback="any" onChange={onChange} />
      <Select
        label="Action"
        options={actionOptions(search.action)}
        value={search.action ?? ""}
        onChange={(event) => onChange({ action: event.target.value || undefined })}
      />
      <IdFilter label="Actor (id)" value={search.actor} onCommit={(actor) => onChange({ actor })} />
      <IdFilter label="Object (id)" value={search.object} onCommit={(object) => onChange({ object })} />
      {isFiltered ? (
        <Link to="/audit" search={{}} className="link pb-2">
          Remove all filters
        </Link>
      ) : null}
    </div>
  );
}

interface IdFilterProps {
  label: string;
  value: string | undefined;
  onCommit: (value: string | undefined) => void;
}

/** A filter that is applied with Enter or when the reader leaves it. */
function IdFilter({ label, value, onCommit }: IdFilterProps) {
  return (
    <TextField
      key={value ?? ""}
      label={label}
      defaultValue={value ?? ""}
      onKeyDown={(event) => {
        if (event.key === "Enter") onCommit(event.currentTarget.value.trim() || undefined);
      }}
      onBlur={(event) => {
        const next = event.target.value.trim() || undefined;
        if (next !== value) onCommit(next);
      }}
    />
  );
}

function Change({ row, onClose }: { row: AuditRow; onClose: () => void }) {
  return (
    <Dialog
      title={`${row.action} ${row.target}`}
      description={`Row ${row.seq}, ${utcMillis(row.at)}, by ${row.actor.name || row.actor.id}`}
      isOpen
      onClose={onClose}
      isWide
    >
      <Diff label="The change" before={row.before} after={row.after} />
      <p className="mt-3 text-muted">
        Hash <code className="break-all">{row.hash}</code>
      </p>
    </Dialog>
  );
}
