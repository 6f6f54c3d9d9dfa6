import { Select, TextArea, TextField } from "@/components/Field";
import { type SettingProblem, type Settings, SURFACE_NAMES, SURFACES, type Surface } from "./draft";

interface SettingsFormProps {
  surface: Surface;
  onSurface: (surface: Surface) => void;
  settings: Settings;
  onChange: (settings: Settings) => void;
  problem: SettingProblem | null;
}

const OPTIONS = SURFACES.map((value) => ({ value, label: SURFACE_NAMES[value] }));

/** What every model of the conversation is asked with. */
export function SettingsForm({ surface, onSurface, settings, onChange, problem }: SettingsFormProps) {
  const field = (name: keyof Settings) => ({
    value: settings[name],
    problem: problem?.setting === name ? problem.message : undefined,
    onChange: (event: { target: { value: string } }) => onChange({ ...settings, [name]: event.target.value }),
  });
  return (
    <div className="flex flex-col gap-3">
      <Select
        label="API"
        options={OPTIONS}
        value={surface}
        onChange={(event) => onSurface(SURFACES.find((name) => name === event.target.value) ?? "chat")}
      />
      <TextArea label="System prompt" rows={3} {...field("system")} />
      <div className="grid grid-cols-3 gap-2">
        <TextField label="Temperature" inputMode="decimal" placeholder="default" {...field("temperature")} />
        <TextField label="Top p" inputMode="decimal" placeholder="default" {...field("topP")} />
        <TextField label="Most tokens" inputMode="numeric" placeholder="default" {...field("maxTokens")} />
      </div>
      <TextArea
        label="Tools (JSON)"
        rows={3}
        className="font-mono text-xs"
        placeholder='[{"name":"find","parameters":{"type":"object"}}]'
        hint="An array of tools with name, description and parameters. Nothing is called: you see what the model asks for."
        {...field("tools")}
      />
      <TextArea
        label="JSON schema of the answer"
        rows={3}
        className="font-mono text-xs"
        placeholder='{"type":"object","properties":{}}'
        {...field("schema")}
      />
      <TextArea
        label="Other members (JSON)"
        rows={2}
        className="font-mono text-xs"
        placeholder='{"routing":{"strategy":"cheapest"}}'
        hint="Added to the request as they are."
        {...field("more")}
      />
    </div>
  );
}
