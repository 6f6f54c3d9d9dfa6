import { useState } from "react";
import { TextField } from "@/components/Field";
import { MembersField } from "./MembersField";
import { memberText, type Value, withMember } from "./value";

interface ProviderFieldsProps {
  value: Value;
  onChange: (value: Value) => void;
  onProblem: (problem: string | undefined) => void;
}

const FIELDS = [
  {
    name: "api_key",
    label: "API key",
    type: "password",
    hint: "Stored encrypted. *** keeps the stored one.",
  },
  {
    name: "base_url",
    label: "Base URL",
    type: "text",
    hint: "Only where it is not the provider's usual one",
  },
  {
    name: "api",
    label: "API",
    type: "text",
    hint: "openai, anthropic, gemini, …; by default the one of its name",
  },
] as const;

/** The members that almost every provider has, and all others as JSON. */
export function ProviderFields({ value, onChange, onProblem }: ProviderFieldsProps) {
  const [edits, setEdits] = useState(0);
  return (
    <>
      {FIELDS.map((field) => (
        <TextField
          key={field.name}
          label={field.label}
          type={field.type}
          autoComplete="off"
          spellCheck={false}
          hint={field.hint}
          value={memberText(value, field.name)}
          onChange={(event) => {
            onChange(withMember(value, field.name, event.target.value));
            setEdits(edits + 1);
          }}
        />
      ))}
      <details>
        <summary className="font-medium">All members as JSON</summary>
        <div className="mt-2">
          {/* The text of the field follows the fields above. */}
          <MembersField
            key={edits}
            section="providers"
            value={value}
            onChange={onChange}
            onProblem={onProblem}
          />
        </div>
      </details>
    </>
  );
}
