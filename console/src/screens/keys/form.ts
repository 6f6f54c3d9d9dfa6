import type { Schemas } from "@/api/client";
import type { Limits } from "@/api/pending";

type KeyFields = Schemas["KeyFields"];

/** The limits as texts of a form. An empty text is no limit. */
export interface LimitsForm {
  budget: string;
  period: NonNullable<Limits["budget_period"]>;
  onBudget: NonNullable<Limits["on_budget"]>;
  unpriced: NonNullable<Limits["unpriced"]>;
  rpm: string;
  burst: string;
  tpm: string;
  maxInFlight: string;
}

export interface KeyForm extends LimitsForm {
  name: string;
  role: NonNullable<KeyFields["role"]>;
  team: string;
  /** The models, separated by commas or lines. */
  models: string;
  /** The end in UTC, as a datetime-local field has it. */
  expiresAt: string;
  logsPayloads: boolean;
  trustsAttribution: boolean;
}

export const EMPTY_LIMITS: LimitsForm = {
  budget: "",
  period: "month",
  onBudget: "finish",
  unpriced: "allow",
  rpm: "",
  burst: "",
  tpm: "",
  maxInFlight: "",
};

export const EMPTY_KEY: KeyForm = {
  ...EMPTY_LIMITS,
  name: "",
  role: "inference",
  team: "",
  models: "",
  expiresAt: "",
  logsPayloads: false,
  trustsAttribution: false,
};

const number = (value: number | null | undefined) =>
  value === null || value === undefined ? "" : String(value);

/** An amount without an exponent, as the API reads it. */
function amount(value: number | null | undefined): string {
  if (value === null || value === undefined) return "";
  return value.toFixed(9).replace(/\.?0+$/, "");
}

type Stored = Pick<
  Schemas["Team"],
  "rpm" | "burst" | "tpm" | "max_in_flight" | "budget_usd" | "budget_period" | "on_budget" | "unpriced"
>;

export function limitsForm(limits: Stored): LimitsForm {
  return {
    budget: amount(limits.budget_usd),
    period: limits.budget_period ?? "month",
    onBudget: limits.on_budget ?? "finish",
    unpriced: limits.unpriced ?? "allow",
    rpm: number(limits.rpm),
    burst: number(limits.burst),
    tpm: number(limits.tpm),
    maxInFlight: number(limits.max_in_flight),
  };
}

export function keyForm(key: Schemas["Key"]): KeyForm {
  return {
    ...limitsForm(key),
    name: key.name,
    role: key.role,
    team: key.team ?? "",
    models: (key.models ?? []).join(", "),
    expiresAt: key.expires_at?.slice(0, 16) ?? "",
    logsPayloads: key.log_payloads,
    trustsAttribution: key.trust_attribution,
  };
}

const whole = (text: string) => (text.trim() === "" ? null : Number(text));

/** The limits as the API takes them. The members of a budget need a budget, and a burst needs an `rpm`. */
export function limitsBody(form: LimitsForm): Limits {
  const budget = form.budget.trim();
  const hasBudget = budget !== "";
  const rpm = whole(form.rpm);
  return {
    budget_usd: hasBudget ? budget : null,
    budget_period: hasBudget ? form.period : null,
    on_budget: hasBudget ? form.onBudget : null,
    unpriced: hasBudget ? form.unpriced : null,
    rpm,
    burst: rpm === null ? null : whole(form.burst),
    tpm: whole(form.tpm),
    max_in_flight: whole(form.maxInFlight),
  };
}

/** The whole key as the API takes it; an absent limit is null, so that a change takes it away. */
export function keyBody(form: KeyForm): KeyFields {
  const models = form.models.split(/[\s,]+/).filter((model) => model !== "");
  return {
    ...limitsBody(form),
    name: form.name.trim(),
    role: form.role,
    team: form.team === "" ? null : form.team,
    models: models.length === 0 ? null : models,
    expires_at: form.expiresAt === "" ? null : `${form.expiresAt}:00Z`,
    log_payloads: form.logsPayloads,
    trust_attribution: form.trustsAttribution,
  };
}

/** The members that a change really changes, so that it overwrites nothing else. */
export function changedMembers(before: KeyFields, after: KeyFields): KeyFields {
  const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);
  return Object.fromEntries(
    Object.entries(after).filter(([name, value]) => !same(value, Reflect.get(before, name))),
  );
}
