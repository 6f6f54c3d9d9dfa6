import { Link } from "@tanstack/react-router";
import { api, type Paths } from "@/api/client";
import { Badge } from "@/components/Badge";
import { Loaded } from "@/components/Loaded";
import { Meter } from "@/components/Meter";
import { Empty } from "@/components/Notice";
import { Section } from "@/components/Screen";
import { type Column, DataTable } from "@/components/table/DataTable";
import { count, ratio, usd } from "@/format/numbers";
import { relative } from "@/format/time";
import { type Counter, counterName, usesOf } from "./counters";

type Rule =
  Paths["/admin/v1/budgets"]["get"]["responses"]["200"]["content"]["application/json"]["data"][number];

const COLUMNS: readonly Column<Counter>[] = [
  { id: "counter", header: "Counts", value: counterName },
  {
    id: "spent",
    header: "Budget",
    value: (counter) => counter.spent_usd ?? null,
    cell: (counter) => <Spending counter={counter} />,
  },
  {
    id: "limits",
    header: "Limits",
    value: (counter) =>
      usesOf(counter)
        .map((use) => `${use.label}: ${use.used} of ${use.limit}`)
        .join(", "),
    cell: (counter) => <Limits counter={counter} />,
  },
  {
    id: "would_refuse",
    header: "Would refuse",
    value: (counter) => counter.would_refuse ?? 0,
    isNumber: true,
  },
];

function Spending({ counter }: { counter: Counter }) {
  const { budget_usd, spent_usd, reserved_usd, resets_at } = counter;
  if (typeof budget_usd !== "number") return <span className="text-muted">no budget</span>;
  const taken = (spent_usd ?? 0) + (reserved_usd ?? 0);
  const reserved = reserved_usd ? `, ${usd(reserved_usd)} reserved` : "";
  const resets = resets_at ? `, anew ${relative(resets_at)}` : "";
  return (
    <Meter
      label={`Budget of ${counter.name}`}
      used={ratio(taken, budget_usd) ?? 1}
      text={`${usd(spent_usd ?? 0)} of ${usd(budget_usd)}${reserved}${resets}`}
    />
  );
}

function Limits({ counter }: { counter: Counter }) {
  const uses = usesOf(counter);
  if (uses.length === 0) return <span className="text-muted">no limits</span>;
  return (
    <div className="flex flex-col gap-1">
      {uses.map((use) => (
        <Meter
          key={use.label}
          label={use.label}
          used={ratio(use.used, use.limit) ?? 1}
          text={`${use.label}: ${count(use.used)} of ${count(use.limit)}`}
        />
      ))}
    </div>
  );
}

/** The rules of the configuration, each with its counters. */
export function Rules() {
  const rules = api.useQuery("get", "/admin/v1/budgets", {}, { refetchInterval: 10_000 });
  return (
    <Loaded query={rules} what="the rules">
      {(list) =>
        list.data.length === 0 ? (
          <Empty title="No rule.">
            <p>
              A rule is a budget or a limit of all requests that it matches: of a team, a key, a tag or an end
              user.{" "}
              <Link to="/configuration" search={{ tab: "budgets", edit: "+" }} className="link">
                Add a rule
              </Link>
            </p>
          </Empty>
        ) : (
          <>
            {list.data.map((rule) => (
              <RuleSection key={rule.name} rule={rule} />
            ))}
            <p className="text-muted">
              A counter appears with the first request that it counts.{" "}
              <Link to="/configuration" search={{ tab: "budgets" }} className="link">
                Change the rules
              </Link>
            </p>
          </>
        )
      }
    </Loaded>
  );
}

function RuleSection({ rule }: { rule: Rule }) {
  return (
    <Section title={`Rule ${rule.name}`}>
      <p className="flex flex-wrap items-center gap-2 text-muted">
        <Badge look={rule.mode === "enforce" ? "accent" : "plain"}>{rule.mode}</Badge>
        period: {rule.period}
      </p>
      <DataTable
        label={`Counters of ${rule.name}`}
        columns={COLUMNS}
        rows={rule.counters}
        rowKey={counterName}
        csvName={`rule-${rule.name}`}
        empty={<Empty title="No request has matched this rule since the process started." />}
      />
    </Section>
  );
}
