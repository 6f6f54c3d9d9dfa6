import { Link } from "@tanstack/react-router";
import { api } from "@/api/client";
import { useSignedIn } from "@/api/session";
import { apiBase } from "@/app/places";
import { Copy } from "@/components/Copy";
import { type Fact, Facts } from "@/components/Facts";
import { Loaded } from "@/components/Loaded";
import { Empty } from "@/components/Notice";
import { Screen, Section } from "@/components/Screen";
import { count, tokens, usd } from "@/format/numbers";
import { RecentErrors } from "./Errors";
import { bindingText, MyLimits } from "./MyLimits";
import type { Mine } from "./types";

/** What the holder of a key may know about it, without any right to manage. */
export function Me() {
  const { kind } = useSignedIn();
  const me = api.useQuery("get", "/v1/me", {}, { refetchInterval: 30_000 });
  return (
    <Screen
      title="My key"
      lead={
        kind === "oidc" ? "What your identity may use and has spent." : "What your key may use and has spent."
      }
    >
      <Loaded query={me} what="your key">
        {(data) => (
          <>
            <Facts facts={factsOf(data)} />
            <Section title="Spent">
              <Facts facts={spendingOf(data)} />
            </Section>
            <Section title="Limits" lead={`What ends first: ${bindingText(data.binding_limit)}.`}>
              <MyLimits limits={data.limits} />
            </Section>
            <Section title="Models" actions={<ModelsLink />}>
              <Models models={data.models} />
            </Section>
            <Section title="Recent errors">
              <RecentErrors errors={data.recent_errors} />
            </Section>
          </>
        )}
      </Loaded>
    </Screen>
  );
}

function factsOf({ key }: Mine): Fact[] {
  return [
    { label: "Name", value: key.name },
    { label: "Id", value: <code>{key.id}</code> },
    { label: "Role", value: key.role },
    { label: "Team", value: key.team ?? "none" },
    {
      label: "Base URL for clients",
      value: (
        <span className="inline-flex flex-wrap items-center gap-2">
          <code className="break-all">{apiBase}</code>
          <Copy text={apiBase} />
        </span>
      ),
    },
  ];
}

function spendingOf({ spend }: Mine): Fact[] {
  const facts = (span: Mine["spend"]["day"], name: string): Fact[] => [
    { label: `Cost of this ${name}`, value: usd(span.cost_usd) },
    { label: `Requests of this ${name}`, value: `${count(span.requests)}, ${count(span.failed)} failed` },
    { label: `Tokens of this ${name}`, value: tokens(span.tokens) },
    { label: `Unpriced requests of this ${name}`, value: count(span.unpriced_requests) },
  ];
  return [...facts(spend.day, "day"), ...facts(spend.month, "month")];
}

function ModelsLink() {
  return (
    <Link to="/models" className="link">
      Prices and abilities
    </Link>
  );
}

function Models({ models }: { models: readonly string[] }) {
  if (models.length === 0) return <Empty title="No models." />;
  return (
    <ul className="card max-h-80 columns-1 overflow-y-auto p-4 sm:columns-2 lg:columns-3">
      {models.map((model) => (
        <li key={model} className="break-all">
          <code>{model}</code>
        </li>
      ))}
    </ul>
  );
}
