import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { api } from "@/api/client";
import type { KeyWithLimit } from "@/api/pending";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Checkbox } from "@/components/Field";
import { Loaded } from "@/components/Loaded";
import { Moment } from "@/components/Moment";
import { Empty } from "@/components/Notice";
import { type Column, DataTable } from "@/components/table/DataTable";
import { BudgetBar, bindingText } from "./Budget";
import { stateOf } from "./state";

const route = getRouteApi("/keys");
/** The most keys of one answer. */
const PAGE = 1000;

const COLUMNS: readonly Column<KeyWithLimit>[] = [
  {
    id: "name",
    header: "Name",
    value: (key) => key.name,
    cell: (key) => (
      <Link to="/keys/$keyId" params={{ keyId: key.id }} className="link" title={key.id}>
        {key.name}
      </Link>
    ),
  },
  {
    id: "id",
    header: "Id",
    value: (key) => key.id,
    cell: (key) => <span className="font-mono text-xs">{key.id}</span>,
  },
  { id: "role", header: "Role", value: (key) => key.role },
  {
    id: "team",
    header: "Team",
    value: (key) => key.team,
    cell: (key) =>
      key.team ? (
        <Link to="/teams/$teamId" params={{ teamId: key.team }} className="link">
          {key.team}
        </Link>
      ) : (
        "–"
      ),
  },
  {
    id: "spent",
    header: "Budget",
    value: (key) => key.budget?.spent_usd ?? null,
    cell: (key) => <BudgetBar owner={key.name} of={key} />,
  },
  { id: "binding", header: "Ends first", value: (key) => bindingText(key.binding_limit) },
  { id: "source", header: "From", value: (key) => (key.source === "config" ? "file" : "API") },
  {
    id: "created",
    header: "Created",
    value: (key) => key.created_at,
    cell: (key) => (key.created_at ? <Moment at={key.created_at} /> : "–"),
  },
  {
    id: "state",
    header: "State",
    value: (key) => stateOf(key).text,
    cell: (key) => <Badge look={stateOf(key).look}>{stateOf(key).text}</Badge>,
  },
];

/** All keys. */
export function KeyTable() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const keys = api.useInfiniteQuery(
    "get",
    "/admin/v1/keys",
    {
      params: {
        query: {
          limit: PAGE,
          ...(search.team ? { team: search.team } : {}),
          ...(search.revoked ? { include_revoked: true } : {}),
        },
      },
    },
    {
      pageParamName: "after",
      initialPageParam: null,
      getNextPageParam: (page: { next: string | null }) => page.next,
    },
  );
  const rows = useMemo(() => keys.data?.pages.flatMap((page) => page.data) ?? [], [keys.data]);
  const change = (next: Partial<typeof search>) =>
    navigate({ search: (now) => ({ ...now, ...next }), replace: true, resetScroll: false });
  const tools = (
    <>
      {search.team ? (
        <button type="button" className="link" onClick={() => change({ team: undefined })}>
          Show all teams
        </button>
      ) : null}
      <Checkbox
        label="Revoked keys, too"
        checked={search.revoked !== undefined}
        onChange={(event) => change({ revoked: event.target.checked ? "true" : undefined })}
      />
    </>
  );
  return (
    <Loaded query={keys} what="the keys">
      {() => (
        <>
          <DataTable
            label="Keys"
            columns={COLUMNS}
            rows={rows}
            rowKey={(key) => key.id}
            sort={search.sort}
            onSort={(sort) => change({ sort })}
            csvName="keys"
            tools={tools}
            empty={<Empty title="No keys." />}
          />
          {keys.hasNextPage ? (
            <div className="mt-3">
              <Button onClick={() => keys.fetchNextPage()} disabled={keys.isFetchingNextPage}>
                Load more keys
              </Button>
            </div>
          ) : null}
        </>
      )}
    </Loaded>
  );
}
