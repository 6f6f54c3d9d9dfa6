import { keepPreviousData } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { api } from "@/api/client";
import type { Overview } from "@/api/pending";
import { Checkbox } from "@/components/Field";
import { Loaded } from "@/components/Loaded";
import { Empty } from "@/components/Notice";
import { RangePicker } from "@/components/RangePicker";
import { Screen, Section } from "@/components/Screen";
import { count } from "@/format/numbers";
import { utc } from "@/format/time";
import { Charts } from "./Charts";
import { Groups } from "./Groups";
import type { OverviewSearch } from "./search";
import { Tiles } from "./Tiles";

const route = getRouteApi("/");

/** What the gateway did and what it cost. One request fills the whole screen. */
export function OverviewScreen() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: Partial<OverviewSearch>) =>
    navigate({ search: (now) => ({ ...now, ...next }), replace: true, resetScroll: false });
  const isCompared = search.compare === "true";
  const overview = api.useQuery(
    "get",
    "/admin/v1/overview",
    {
      params: {
        query: {
          since: search.since ?? "24h",
          by: search.by ?? "model",
          ...(search.until ? { until: search.until } : {}),
          ...(isCompared ? { compare: "true" as const } : {}),
        },
      },
    },
    { placeholderData: keepPreviousData, refetchInterval: 30_000 },
  );

  return (
    <Screen title="Overview">
      <div className="flex flex-wrap items-end gap-x-4 gap-y-3">
        <RangePicker range={search} fallback="24h" onChange={change} />
        <Checkbox
          className="pb-2"
          label="Compare with the span before"
          checked={isCompared}
          onChange={(event) => change({ compare: event.target.checked ? "true" : undefined })}
        />
      </div>
      <Loaded query={overview} what="the figures">
        {(data) => (
          <>
            <Freshness overview={data} />
            <Tiles overview={data} />
            {data.total.requests === 0 ? <NoRequests /> : null}
            <Section title="Over time">
              <Charts overview={data} view={search.view ?? "chart"} onView={(view) => change({ view })} />
            </Section>
            <Section title="Where it went">
              <Groups overview={data} search={search} onChange={change} />
            </Section>
          </>
        )}
      </Loaded>
    </Screen>
  );
}

function Freshness({ overview }: { overview: Overview }) {
  return (
    <p className="text-muted">
      <span>As of {utc(overview.as_of)}</span>
      {" · "}
      <span>unpriced requests: {count(overview.total.unpriced_requests)}</span>
      {" · "}
      <span>
        {utc(overview.since)} to {utc(overview.until)}
      </span>
    </p>
  );
}

function NoRequests() {
  return (
    <Empty title="No requests in this span.">
      <p>Set up a client, or send a message in the playground. The figures follow a moment later.</p>
      <p className="flex gap-4">
        <Link to="/clients" className="link">
          Set up a client
        </Link>
        <Link to="/playground" className="link">
          Open the playground
        </Link>
      </p>
    </Empty>
  );
}
