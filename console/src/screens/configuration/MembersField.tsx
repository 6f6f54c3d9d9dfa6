import { useState } from "react";
import { TextArea } from "@/components/Field";
import type { ListSection, TableSection } from "./changes";
import { parseMembers, type Value } from "./value";

interface MembersFieldProps {
  section: ListSection | TableSection;
  value: Value;
  onChange: (value: Value) => void;
  onProblem: (problem: string | undefined) => void;
}

const EXAMPLES: Partial<Record<ListSection | TableSection, string>> = {
  providers: '{ "api": "openai", "base_url": "https://api.example.com/v1", "api_key": "…" }',
  models:
    '{ "context_length": 32768, "pricing": { "official_input_per_m": 0.1, "official_output_per_m": 0.3 } }',
  budgets: '{ "match": { "team": "search" }, "budget_usd": 25, "period": "week" }',
  alerts:
    '{ "on": ["budget:0.8"], "format": "slack", "url": "https://hooks.slack.com/services/T000/B000/XXXX" }',
  timeouts: '{ "idle_ms": 90000 }',
};

/** The members of a value as JSON, as the section has them in gateway.toml. */
export function MembersField({ section, value, onChange, onProblem }: MembersFieldProps) {
  const [text, setText] = useState(() => JSON.stringify(value, null, 2));
  const parsed = parseMembers(text);
  const example = EXAMPLES[section];
  return (
    <TextArea
      label="Members"
      rows={10}
      spellCheck={false}
      className="font-mono"
      problem={parsed.problem}
      hint={`The members of [${section}] as JSON${example ? `, such as ${example}` : ""}. *** keeps a stored secret.`}
      value={text}
      onChange={(event) => {
        setText(event.target.value);
        const next = parseMembers(event.target.value);
        onProblem(next.problem);
        if (next.value) onChange(next.value);
      }}
    />
  );
}
