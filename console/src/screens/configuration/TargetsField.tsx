import { useState } from "react";
import { TextArea } from "@/components/Field";
import { targetsText, type Value, withTargets } from "./value";

interface TargetsFieldProps {
  value: Value;
  onChange: (value: Value) => void;
}

/** The models that an alias stands for. */
export function TargetsField({ value, onChange }: TargetsFieldProps) {
  const [text, setText] = useState(() => targetsText(value));
  return (
    <TextArea
      label="Targets"
      rows={4}
      required
      spellCheck={false}
      className="font-mono"
      hint="Ids, bare names or other aliases, one a line. The routing strategy orders several of them."
      value={text}
      onChange={(event) => {
        setText(event.target.value);
        onChange(withTargets(value, event.target.value));
      }}
    />
  );
}
