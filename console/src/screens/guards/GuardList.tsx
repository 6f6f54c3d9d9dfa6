import { Link } from "@tanstack/react-router";
import { api } from "@/api/client";
import { Badge } from "@/components/Badge";
import { Loaded } from "@/components/Loaded";
import { Empty } from "@/components/Notice";
import { rulesOf } from "./rules";

const ACTIONS = {
  stop: { look: "bad", text: "stops the session" },
  warn: { look: "warn", text: "warns" },
} as const;

/** The guards of the configuration. They stand in the file. */
export function GuardList() {
  const config = api.useQuery("get", "/admin/v1/config");
  return (
    <Loaded query={config} what="the guards">
      {({ settings, state }) => {
        const rules = rulesOf(settings).map((rule, index) => ({ ...rule, number: index + 1 }));
        if (rules.length === 0) {
          return (
            <Empty title="No guard.">
              <p>
                A guard stops an agent that calls too often, costs too much, lasts too long or repeats itself.
                Add a table <code>[[guards]]</code> to{" "}
                {state.file ? <code>{state.file}</code> : "a configuration file"}, for example:
              </p>
              <pre className="code self-stretch">{"[[guards]]\nmax_calls = 300\nmax_cost_usd = 5.0"}</pre>
            </Empty>
          );
        }
        return (
          <div className="flex flex-col gap-3">
            <ol className="card divide-y divide-line">
              {rules.map((rule) => (
                <li key={rule.number} className="flex flex-wrap items-center gap-x-4 gap-y-1 px-4 py-3">
                  <Badge look={ACTIONS[rule.action].look}>{ACTIONS[rule.action].text}</Badge>
                  <span className="font-medium">after {rule.limits.join(", ")}</span>
                  <span className="text-muted">for {rule.scope}</span>
                </li>
              ))}
            </ol>
            <p className="text-muted">
              The strictest limit of each action counts. Guards stand in{" "}
              {state.file ? <code>{state.file}</code> : "the environment"}: change them there and load it
              again.{" "}
              <Link to="/requests" search={{ status: "session_limit_reached" }} className="link">
                Requests that a guard stopped
              </Link>
            </p>
          </div>
        );
      }}
    </Loaded>
  );
}
