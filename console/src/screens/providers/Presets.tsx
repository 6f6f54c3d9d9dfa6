import { Link } from "@tanstack/react-router";
import { api } from "@/api/client";
import { useSignedIn } from "@/api/session";
import { Badge } from "@/components/Badge";
import { buttonClass } from "@/components/Button";
import { type Fact, Facts } from "@/components/Facts";
import { Loaded } from "@/components/Loaded";
import { Empty } from "@/components/Notice";
import { Section } from "@/components/Screen";
import { type Preset, presetOf } from "./presets";

/** The aliases that change requests or choose their target by them. */
export function Presets() {
  const entries = api.useQuery("get", "/admin/v1/config/{section}", {
    params: { path: { section: "aliases" } },
  });
  return (
    <Loaded query={entries} what="the presets">
      {(list) => {
        const aliases = "data" in list ? list.data : [];
        const presets = aliases.flatMap((entry) => {
          const preset = presetOf(entry.name, entry.value);
          const origin =
            entry.source === "api" ? `version ${entry.version}` : `from ${entry.place ?? "the file"}`;
          return preset ? [{ preset, origin, isOwn: entry.source === "api" }] : [];
        });
        if (presets.length === 0) return <NoPreset />;
        return (
          <div className="flex flex-col gap-6">
            {presets.map(({ preset, origin, isOwn }) => (
              <OnePreset key={preset.name} preset={preset} origin={origin} isOwn={isOwn} />
            ))}
          </div>
        );
      }}
    </Loaded>
  );
}

function NoPreset() {
  return (
    <Empty title="No preset.">
      <p>
        A preset is an alias with parameters, a system prompt, or targets for some requests only.{" "}
        <Link to="/configuration" search={{ tab: "aliases", edit: "+" }} className="link">
          Add an alias
        </Link>
      </p>
    </Empty>
  );
}

interface OnePresetProps {
  preset: Preset;
  origin: string;
  /** It can be edited here. */
  isOwn: boolean;
}

function OnePreset({ preset, origin, isOwn }: OnePresetProps) {
  const { rights, api: served } = useSignedIn();
  return (
    <Section
      title={`Preset ${preset.name}`}
      actions={
        <>
          {rights.configure && isOwn ? (
            <Link
              to="/configuration"
              search={{ tab: "aliases", edit: preset.name }}
              className={buttonClass()}
              aria-label={`Edit ${preset.name}`}
            >
              Edit
            </Link>
          ) : null}
          {rights.generate && served.same_origin ? (
            <Link
              to="/playground"
              search={{ models: preset.name }}
              className={buttonClass()}
              aria-label={`Try in the playground: ${preset.name}`}
            >
              Try in the playground
            </Link>
          ) : null}
        </>
      }
    >
      <div className="flex flex-col gap-3">
        <p className="flex flex-wrap items-center gap-2 text-muted">
          <Badge>{origin}</Badge>
          <span>
            Clients ask for <code>{preset.name}</code> or <code>@preset/{preset.name}</code>.
          </span>
        </p>
        <Facts facts={factsOf(preset)} />
        {preset.system === null ? null : (
          <figure>
            <figcaption className="text-muted">
              {preset.systemMode === "replace"
                ? "System prompt, in the place of those of the client"
                : "System prompt, before those of the client"}
            </figcaption>
            <blockquote className="card mt-1 p-4 break-words whitespace-pre-wrap">{preset.system}</blockquote>
          </figure>
        )}
      </div>
    </Section>
  );
}

function factsOf(preset: Preset): Fact[] {
  const targets = preset.targets.map(({ model, condition }) =>
    condition ? `${model}, if ${condition}` : model,
  );
  return [
    { label: "Targets", value: <Lines of={targets} /> },
    { label: "Set if the client does not", value: <Lines of={parameters(preset.defaults)} /> },
    { label: "Always set", value: <Lines of={parameters(preset.overrides)} /> },
    { label: "Taken out", value: <Lines of={preset.strip} /> },
  ];
}

function parameters(values: Preset["defaults"]): string[] {
  return values.map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
}

function Lines({ of: lines }: { of: readonly string[] }) {
  if (lines.length === 0) return <span className="text-muted">nothing</span>;
  return (
    <ul className="list-disc pl-4">
      {lines.map((line) => (
        <li key={line} className="break-words">
          {line}
        </li>
      ))}
    </ul>
  );
}
