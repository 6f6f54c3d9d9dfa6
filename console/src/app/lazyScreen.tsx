import { lazyRouteComponent } from "@tanstack/react-router";
import { createElement, type FunctionComponent, useEffect, useState } from "react";
import { Button } from "@/components/Button";
import { Loading, Notice } from "@/components/Notice";
import { Screen } from "@/components/Screen";
import { consoleRoot } from "./places";

/** Whether the gateway serves the console at this moment. */
async function isServed(): Promise<boolean> {
  try {
    return (await fetch(consoleRoot, { method: "HEAD", cache: "no-store" })).ok;
  } catch {
    return false;
  }
}

/** The script of a screen. `screen` is there once it has loaded. */
interface Script {
  load: () => Promise<FunctionComponent>;
  screen?: FunctionComponent;
}

/** Stands in the place of a screen whose script did not load, and loads it when the gateway answers again. */
function Unloaded({ script }: { script: Script }) {
  const [loaded, setLoaded] = useState(script.screen !== undefined);
  const [isAsking, setAsking] = useState(true);

  async function attempt() {
    setAsking(true);
    try {
      script.screen = await script.load();
      setLoaded(true);
    } catch {
      // Some browsers remember for the life of a page that a script did not load.
      if (await isServed()) window.location.reload();
      else setAsking(false);
    }
  }

  // biome-ignore lint/correctness/useExhaustiveDependencies: opening the screen is one attempt
  useEffect(() => {
    if (!loaded) attempt();
  }, []);
  if (loaded && script.screen) return createElement(script.screen);
  if (isAsking) return <Loading />;
  return (
    <Screen title="This screen is not loaded yet">
      <Notice look="bad">The gateway does not answer.</Notice>
      <div>
        <Button look="primary" onClick={attempt}>
          Repeat
        </Button>
      </div>
    </Screen>
  );
}

/**
 * A screen whose code loads when it is opened. The router loads the page again when the code is missing, which an upgrade
 * causes. While the gateway is down that would lose the console, so the screen says then that nothing answers.
 */
export function lazyScreen<Name extends string>(
  load: () => Promise<Record<Name, FunctionComponent>>,
  name: Name,
) {
  const script: Script = { load: async () => (await load())[name] };
  return lazyRouteComponent(async (): Promise<{ screen: FunctionComponent }> => {
    try {
      return { screen: await script.load() };
    } catch (error) {
      if (await isServed()) throw error;
      return { screen: () => <Unloaded script={script} /> };
    }
  }, "screen");
}
