import { useState } from "react";
import { Select, TextField } from "./Field";

export interface Range {
  since?: string | undefined;
  until?: string | undefined;
}

const RANGES = [
  { value: "1h", label: "Last hour" },
  { value: "24h", label: "Last 24 hours" },
  { value: "7d", label: "Last 7 days" },
  { value: "30d", label: "Last 30 days" },
  { value: "90d", label: "Last 90 days" },
] as const;

interface RangePickerProps {
  range: Range;
  /** The choice without a range in the address. `any` is no limit. */
  fallback: (typeof RANGES)[number]["value"] | "any";
  onChange: (range: Range) => void;
}

/** A span up to now, or two moments in UTC. */
export function RangePicker({ range, fallback, onChange }: RangePickerProps) {
  const chosen = range.since ?? fallback;
  const isKnown =
    range.until === undefined && (chosen === "any" || RANGES.some((item) => item.value === chosen));
  const [isCustom, setCustom] = useState(!isKnown);
  const options = [
    ...(fallback === "any" ? [{ value: "any", label: "Any time" }] : []),
    ...RANGES,
    { value: "custom", label: "From … to …" },
  ];

  function choose(value: string) {
    setCustom(value === "custom");
    if (value !== "custom") onChange({ since: value === fallback ? undefined : value, until: undefined });
  }

  return (
    <div className="flex flex-wrap items-end gap-2">
      <Select
        label="Range"
        options={options}
        value={isCustom || !isKnown ? "custom" : chosen}
        onChange={(event) => choose(event.target.value)}
      />
      {isCustom || !isKnown ? (
        <>
          <Instant
            label="From (UTC)"
            value={range.since}
            onChange={(since) => onChange({ ...range, since })}
          />
          <Instant label="To (UTC)" value={range.until} onChange={(until) => onChange({ ...range, until })} />
        </>
      ) : null}
    </div>
  );
}

interface InstantProps {
  label: string;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
}

/** A moment in UTC, to the minute, as the API takes it. */
function Instant({ label, value, onChange }: InstantProps) {
  return (
    <TextField
      label={label}
      type="datetime-local"
      value={/^\d{4}-\d\d-\d\dT\d\d:\d\d/.exec(value ?? "")?.[0] ?? ""}
      onChange={(event) => onChange(event.target.value === "" ? undefined : `${event.target.value}:00Z`)}
    />
  );
}
