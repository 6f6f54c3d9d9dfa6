import { useMemo } from "react";
import { Labelled } from "@/components/Field";
import { canChat, useModels } from "./catalogue";

interface ModelSelectProps {
  label: string;
  value: string;
  onChange: (model: string) => void;
  hint?: string;
}

/** Chooses one of the models that answer conversations, by provider. A model that is not listed stays chosen. */
export function ModelSelect({ label, value, onChange, hint }: ModelSelectProps) {
  const models = useModels();
  const groups = useMemo(() => {
    const found = new Map<string, string[]>();
    for (const model of models.data ?? []) {
      if (!canChat(model)) continue;
      const group = model.targets ? "Aliases" : model.provider;
      found.set(group, [...(found.get(group) ?? []), model.id]);
    }
    return [...found];
  }, [models.data]);
  const isListed = groups.some(([, ids]) => ids.includes(value));
  return (
    <Labelled label={label} hint={hint}>
      {(wiring) => (
        <select
          className="field"
          {...wiring}
          value={value}
          onChange={(event) => onChange(event.target.value)}
        >
          {isListed ? null : <option value={value}>{value || "Choose a model"}</option>}
          {groups.map(([group, ids]) => (
            <optgroup key={group} label={group}>
              {ids.map((id) => (
                <option key={id} value={id}>
                  {id}
                </option>
              ))}
            </optgroup>
          ))}
        </select>
      )}
    </Labelled>
  );
}
