import { Link } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { Select, TextField } from "@/components/Field";
import { RangePicker } from "@/components/RangePicker";
import { FILTERS, type Filter, type RequestsSearch } from "./search";

interface FiltersProps {
  search: RequestsSearch;
  onChange: (next: Partial<RequestsSearch>) => void;
}

const STATUSES = [
  "ok",
  "failed",
  "upstream_error",
  "upstream_timeout",
  "upstream_rate_limited",
  "upstream_overloaded",
  "upstream_unreachable",
  "no_available_provider",
  "rate_limit_exceeded",
  "insufficient_quota",
  "client_closed_request",
];
const SURFACES = [
  "chat",
  "responses",
  "messages",
  "gemini",
  "completions",
  "embeddings",
  "rerank",
  "score",
  "moderations",
  "images",
  "speech",
  "transcriptions",
  "translations",
  "realtime",
  "passthrough",
];

const TEXTS: { name: Filter; label: string; type?: "number" }[] = [
  { name: "model", label: "Model" },
  { name: "provider", label: "Provider" },
  { name: "key", label: "Key id" },
  { name: "team", label: "Team" },
  { name: "session", label: "Session" },
  { name: "end_user", label: "End user" },
  { name: "tag", label: "Tag" },
  { name: "repository", label: "Repository" },
  { name: "branch", label: "Branch" },
  { name: "pull_request", label: "Pull request" },
  { name: "cost_min", label: "Cost from (USD)", type: "number" },
  { name: "latency_min_ms", label: "Latency from (ms)", type: "number" },
  { name: "error", label: "Error contains" },
];

function options(values: readonly string[], chosen: string | undefined) {
  const known = chosen && !values.includes(chosen) ? [...values, chosen] : values;
  return [{ value: "", label: "Any" }, ...known.map((value) => ({ value, label: value }))];
}

/** What the log is narrowed to. Every filter stands in the address. */
export function Filters({ search, onChange }: FiltersProps) {
  const set = (name: Filter, value: string) => onChange({ [name]: value === "" ? undefined : value });
  const isFiltered = FILTERS.some((name) => search[name] !== undefined);
  const [isOpen, setOpen] = useState(isFiltered);
  return (
    <div className="card flex flex-col gap-3 p-4">
      <div className="flex flex-wrap items-end gap-3">
        <RangePicker range={search} fallback="any" onChange={onChange} />
        <Select
          label="Status"
          options={options(STATUSES, search.status)}
          value={search.status ?? ""}
          onChange={(event) => set("status", event.target.value)}
        />
        <Select
          label="Surface"
          options={options(SURFACES, search.surface)}
          value={search.surface ?? ""}
          onChange={(event) => set("surface", event.target.value)}
        />
        <button type="button" className="link pb-2" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Fewer filters" : "More filters"}
        </button>
        {isFiltered ? (
          <Link to="/requests" search={{ live: search.live }} className="link pb-2">
            Remove all filters
          </Link>
        ) : null}
      </div>
      {isOpen ? (
        <div className="grid grid-cols-2 gap-3 md:grid-cols-4">
          {TEXTS.map((item) => (
            <TextFilter
              key={item.name}
              label={item.label}
              type={item.type ?? "text"}
              value={search[item.name] ?? ""}
              onCommit={(value) => set(item.name, value)}
            />
          ))}
        </div>
      ) : null}
    </div>
  );
}

interface TextFilterProps {
  label: string;
  type: "text" | "number";
  value: string;
  onCommit: (value: string) => void;
}

/** A filter that is applied with Enter or when the reader leaves it, so that half a word asks for nothing. */
function TextFilter({ label, type, value, onCommit }: TextFilterProps) {
  const [typed, setTyped] = useState(value);
  const [last, setLast] = useState(value);
  // An effect would also run when the screen comes back after a sign-in, and erase what was typed.
  if (value !== last) {
    setLast(value);
    setTyped(value);
  }

  function commit(event?: FormEvent) {
    event?.preventDefault();
    if (typed.trim() !== value) onCommit(typed.trim());
  }

  return (
    <form onSubmit={commit}>
      <TextField
        label={label}
        type={type}
        min={type === "number" ? 0 : undefined}
        step={type === "number" ? "any" : undefined}
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
        onBlur={() => commit()}
      />
    </form>
  );
}
