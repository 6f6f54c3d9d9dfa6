import { api } from "@/api/client";
import { useRight } from "@/api/session";
import { Button } from "@/components/Button";
import { Copy } from "@/components/Copy";
import { Facts } from "@/components/Facts";
import { Loaded } from "@/components/Loaded";
import { Notice, Problem } from "@/components/Notice";
import { utc } from "@/format/time";
import { useReloadFile } from "./changes";
import { oneLine } from "./value";

/** The whole configuration in force, with masked secrets. */
export function InForce() {
  const config = api.useQuery("get", "/admin/v1/config");
  const mayReload = useRight("operate");
  const reload = useReloadFile();
  return (
    <Loaded query={config} what="the configuration">
      {({ settings, state }) => {
        const text = JSON.stringify(settings, null, 2);
        return (
          <div className="flex flex-col gap-3">
            {state.refused_reload ? (
              <Notice look="bad">The last reload was refused: {oneLine(state.refused_reload)}</Notice>
            ) : null}
            {state.restart_required.length > 0 ? (
              <Notice look="warn">A restart applies: {state.restart_required.join(", ")}</Notice>
            ) : null}
            <Facts
              facts={[
                {
                  label: "File",
                  value: state.file ?? "none: the settings are the defaults and the environment's",
                },
                { label: "Loaded", value: utc(state.loaded_at) },
              ]}
            />
            <div className="flex flex-wrap items-center gap-2">
              {mayReload ? (
                <Button disabled={reload.isPending} onClick={() => reload.mutate()}>
                  Load the file again
                </Button>
              ) : null}
              <Copy label="Copy as JSON" text={text} />
            </div>
            <Problem error={reload.error} />
            {reload.isSuccess ? <Notice look="good">The file was loaded.</Notice> : null}
            {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
            <pre tabIndex={0} className="code max-h-[60dvh] overflow-auto">
              {text}
            </pre>
          </div>
        );
      }}
    </Loaded>
  );
}
