import { Meter } from "@/components/Meter";
import { Notice } from "@/components/Notice";
import { count, ratio, usd } from "@/format/numbers";
import { relative } from "@/format/time";
import type { Mine } from "./types";

export { bindingText } from "../keys/Budget";

type LimitSet = NonNullable<Mine["limits"]>[number];
type Counted = LimitSet["in_flight"];
type Budget = NonNullable<LimitSet["budget"]>;

const COUNTED = [
  ["Requests per minute", "requests_per_minute"],
  ["Tokens per minute", "tokens_per_minute"],
  ["Requests in flight", "in_flight"],
] as const;

/** The limits of the key and of its team, each with what is used of it. */
export function MyLimits({ limits }: { limits: Mine["limits"] }) {
  if (limits === null) {
    return (
      <Notice look="warn">
        The limits cannot be read now, because the store that replicas share does not answer.
      </Notice>
    );
  }
  return (
    <div className="grid gap-4 lg:grid-cols-2">
      {limits.map((set) => (
        <LimitCard key={`${set.scope}-${set.id}`} set={set} />
      ))}
    </div>
  );
}

function LimitCard({ set }: { set: LimitSet }) {
  const isFree = !set.budget && COUNTED.every(([, name]) => !set[name]);
  return (
    <div className="card flex flex-col gap-3 p-4">
      <h3>{set.scope === "team" ? `Team ${set.id}` : "This key"}</h3>
      {isFree ? <p className="text-muted">No limits.</p> : null}
      {set.budget ? <BudgetMeter budget={set.budget} /> : null}
      {COUNTED.map(([label, name]) => (
        <CountMeter key={name} label={label} counted={set[name]} />
      ))}
    </div>
  );
}

function CountMeter({ label, counted }: { label: string; counted: Counted }) {
  if (!counted) return null;
  return (
    <div>
      <p className="mb-1">{label}</p>
      <Meter
        label={label}
        used={ratio(counted.used, counted.limit) ?? 1}
        text={`${count(counted.used)} of ${count(counted.limit)}, ${count(counted.left)} left`}
      />
    </div>
  );
}

function BudgetMeter({ budget }: { budget: Budget }) {
  const spent = budget.spent_usd ?? 0;
  const reserved = budget.reserved_usd ? `, ${usd(budget.reserved_usd)} held by requests in flight` : "";
  const resets = budget.resets_at ? `, anew ${relative(budget.resets_at)}` : "";
  return (
    <div>
      <p className="mb-1">Budget ({budget.period === "total" ? "in total" : `a ${budget.period}`})</p>
      <Meter
        label="Budget"
        used={ratio(spent, budget.limit_usd) ?? 1}
        text={`${usd(spent)} of ${usd(budget.limit_usd)} spent${reserved}, ${usd(budget.left_usd)} left${resets}`}
      />
    </div>
  );
}
