import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import type { Overview } from "@/api/pending";
import { Empty } from "@/components/Notice";
import { type Tab, Tabs } from "@/components/Tabs";
import { type Column, DataTable } from "@/components/table/DataTable";
import { count, percent, ratio, usd } from "@/format/numbers";
import { GROUPINGS, type Grouping, type OverviewSearch } from "./search";

type Group = Overview["groups"][number];

interface GroupsProps {
  overview: Overview;
  search: OverviewSearch;
  onChange: (next: Partial<OverviewSearch>) => void;
}

const TITLES: Record<Grouping, string> = {
  model: "Model",
  provider: "Provider",
  key: "Key",
  team: "Team",
  surface: "Surface",
  end_user: "End user",
  tag: "Tag",
  repository: "Repository",
  branch: "Branch",
  pull_request: "Pull request",
};
const TABS: Tab<Grouping>[] = GROUPINGS.map((value) => ({ value, label: `By ${nounOf(value)}` }));

function nounOf(by: Grouping): string {
  return TITLES[by].toLowerCase();
}

/** The same sums, split by one property. */
export function Groups({ overview, search, onChange }: GroupsProps) {
  const by = search.by ?? "model";
  const columns = useMemo(() => columnsOf(by, overview, search), [by, overview, search]);
  return (
    <Tabs label="Split the figures" tabs={TABS} value={by} onChange={(next) => onChange({ by: next })}>
      <DataTable
        label={`Usage by ${nounOf(by)}`}
        columns={columns}
        rows={overview.groups}
        rowKey={(group) => group.group ?? (group.other ? "others" : "none")}
        sort={search.sort ?? "cost.desc"}
        onSort={(sort) => onChange({ sort })}
        csvName={`usage-by-${by}`}
        empty={<Empty title="Nothing to split in this span." />}
      />
    </Tabs>
  );
}

function columnsOf(by: Grouping, overview: Overview, range: OverviewSearch): Column<Group>[] {
  const number = (
    id: string,
    header: string,
    value: (group: Group) => number,
    show = count,
  ): Column<Group> => ({
    id,
    header,
    value,
    cell: (group) => show(value(group)),
    isNumber: true,
  });
  return [
    {
      id: "group",
      header: TITLES[by],
      value: (group) => group.name ?? group.group ?? withoutName(by, group),
      cell: (group) => <GroupLink by={by} group={group} range={range} />,
    },
    number("requests", "Requests", (group) => group.requests),
    number("tokens", "Tokens", (group) => group.total_tokens),
    number("cost", "Cost", (group) => group.cost_usd, usd),
    {
      id: "share",
      header: "Share of cost",
      isNumber: true,
      value: (group) => ratio(group.cost_usd, overview.total.cost_usd),
      cell: (group) => percent(ratio(group.cost_usd, overview.total.cost_usd)),
    },
    number("failed", "Failed", (group) => group.failed),
    number("hits", "Cache hits", (group) => group.cache_hits),
    number("saved", "Saved", (group) => group.saved_usd, usd),
    number("unpriced", "Unpriced", (group) => group.unpriced_requests),
  ];
}

/** The row of requests that belong to no group, or of all groups that are not listed. */
function withoutName(by: Grouping, group: Group): string {
  return group.other ? "all others" : `no ${nounOf(by)}`;
}

interface GroupLinkProps {
  by: Grouping;
  group: Group;
  range: OverviewSearch;
}

/** Leads to the requests of the group. */
function GroupLink({ by, group, range }: GroupLinkProps) {
  if (group.group === null || group.group === "") {
    return <span className="text-muted">{withoutName(by, group)}</span>;
  }
  const { since = "24h", until } = range;
  return (
    <Link
      to="/requests"
      search={{ [by]: group.group, since, ...(until ? { until } : {}) }}
      className="link"
      title={group.group}
    >
      {group.name ?? group.group}
    </Link>
  );
}
