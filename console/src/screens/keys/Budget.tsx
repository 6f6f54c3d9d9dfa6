import type { Schemas } from "@/api/client";
import type { BindingLimit } from "@/api/pending";
import { Meter } from "@/components/Meter";
import { count, decimal, ratio, usd } from "@/format/numbers";
import { relative } from "@/format/time";

type Budgeted = Pick<Schemas["Team"], "budget_usd" | "budget_period" | "budget">;

/** The periods of budgets, as the end of a sentence. */
export const PERIODS = [
  { value: "day", label: "a day" },
  { value: "week", label: "a week" },
  { value: "month", label: "a month" },
  { value: "quarter", label: "a quarter" },
  { value: "total", label: "in total" },
] as const satisfies readonly { value: Schemas["BudgetPeriod"]; label: string }[];

/** A budget in words: `$25.00 a month`. */
export function budgetText({ budget_usd, budget_period }: Budgeted): string {
  if (budget_usd === null) return "no budget";
  const period = PERIODS.find(({ value }) => value === (budget_period ?? "month"));
  return `${usd(budget_usd)} ${period?.label ?? `in ${budget_period}`}`;
}

/** What is spent of a budget, as a bar. */
export function BudgetBar({ owner, of }: { owner: string; of: Budgeted }) {
  if (of.budget_usd === null) return <span className="text-muted">no budget</span>;
  const spent = of.budget?.spent_usd ?? 0;
  const resets = of.budget?.resets_at ? `, anew ${relative(of.budget.resets_at)}` : "";
  return (
    <Meter
      label={`Budget of ${owner}`}
      used={ratio(spent, of.budget_usd) ?? 1}
      text={`${usd(spent)} of ${budgetText(of)}${resets}`}
    />
  );
}

const LIMITS: Record<BindingLimit["limit"], (left: number) => string> = {
  requests_per_minute: (left) => `${count(left)} requests of this minute left`,
  tokens_per_minute: (left) => `${count(left)} tokens of this minute left`,
  in_flight: (left) => `${count(left)} requests in flight left`,
  budget: (left) => `${usd(left)} left`,
};

/** The limit that ends first, of the key or of its team. */
export function bindingText(limit: BindingLimit | null | undefined): string {
  if (!limit) return "nothing limits it";
  return `${LIMITS[limit.limit](limit.left)} (${decimal(limit.left_percent)} %), by the ${limit.scope}`;
}
