import { Select, TextField } from "@/components/Field";
import { PERIODS } from "./Budget";
import type { LimitsForm } from "./form";

interface LimitFieldsProps<T extends LimitsForm> {
  form: T;
  onChange: (next: Partial<LimitsForm>) => void;
}

const ENDS = [
  { value: "finish", label: "finish answers that have begun" },
  { value: "cut", label: "cut answers where the money ends" },
] as const;
const UNPRICED = [
  { value: "allow", label: "allow them" },
  { value: "refuse", label: "refuse them" },
] as const;

function pick<T extends string>(options: readonly { value: T }[], value: string): T | undefined {
  return options.find((option) => option.value === value)?.value;
}

/** The amount and its period. */
export function BudgetFields<T extends LimitsForm>({ form, onChange }: LimitFieldsProps<T>) {
  const isListed = PERIODS.some(({ value }) => value === form.period);
  const periods = isListed ? PERIODS : [...PERIODS, { value: form.period, label: form.period }];
  return (
    <div className="grid grid-cols-[1fr_8rem] gap-3">
      <TextField
        label="Budget"
        inputMode="decimal"
        pattern="\d+(\.\d{1,9})?"
        title="An amount in USD with at most nine digits after the point"
        placeholder="no budget"
        hint="USD; empty is no budget"
        value={form.budget}
        onChange={(event) => onChange({ budget: event.target.value })}
      />
      <Select
        label="Period"
        options={periods}
        value={form.period}
        onChange={(event) => onChange({ period: pick(periods, event.target.value) ?? form.period })}
      />
    </div>
  );
}

/** Everything else that limits a key or a team. */
export function OtherLimits<T extends LimitsForm>({ form, onChange }: LimitFieldsProps<T>) {
  const whole = (label: string, name: "rpm" | "burst" | "tpm" | "maxInFlight", hint: string) => (
    <TextField
      label={label}
      type="number"
      min={1}
      step={1}
      placeholder="no limit"
      hint={hint}
      value={form[name]}
      onChange={(event) => onChange({ [name]: event.target.value })}
    />
  );
  return (
    <div className="grid grid-cols-1 gap-3 sm:grid-cols-2">
      {whole("Requests per minute", "rpm", "in any 60 seconds")}
      {whole("At once", "burst", "of the requests per minute")}
      {whole("Tokens per minute", "tpm", "prompt and answer")}
      {whole("Requests in flight", "maxInFlight", "at one time")}
      <Select
        label="When the money ends"
        options={ENDS}
        value={form.onBudget}
        onChange={(event) => onChange({ onBudget: pick(ENDS, event.target.value) ?? form.onBudget })}
      />
      <Select
        label="Models without a known price"
        options={UNPRICED}
        value={form.unpriced}
        onChange={(event) => onChange({ unpriced: pick(UNPRICED, event.target.value) ?? form.unpriced })}
      />
    </div>
  );
}
