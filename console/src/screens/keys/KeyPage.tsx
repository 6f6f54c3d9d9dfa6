import { getRouteApi, Link } from "@tanstack/react-router";
import { api, type Schemas } from "@/api/client";
import type { KeyWithLimit } from "@/api/pending";
import { useSignedIn } from "@/api/session";
import { Badge } from "@/components/Badge";
import { type Fact, Facts } from "@/components/Facts";
import { Loaded } from "@/components/Loaded";
import { Moment } from "@/components/Moment";
import { Notice } from "@/components/Notice";
import { Screen, Section } from "@/components/Screen";
import { count } from "@/format/numbers";
import { utc } from "@/format/time";
import { BudgetBar, bindingText } from "./Budget";
import { KeyActions } from "./KeyActions";
import { stateOf } from "./state";

const route = getRouteApi("/keys/$keyId");

/** One key: its limits, what limits it first, and what can be done with it. */
export function KeyPage() {
  const { keyId } = route.useParams();
  const session = useSignedIn();
  const key = api.useQuery("get", "/admin/v1/keys/{key_id}", { params: { path: { key_id: keyId } } });
  const mayChange = session.rights.operate && (key.data?.role !== "admin" || session.role === "admin");
  const isChangeable = key.data?.source === "store" && key.data.revoked_at === null;
  return (
    <Screen
      title={key.data ? `Key ${key.data.name}` : `Key ${keyId}`}
      lead={
        <Link to="/keys" className="link">
          All keys
        </Link>
      }
      actions={key.data && mayChange && isChangeable ? <KeyActions stored={key.data} /> : null}
    >
      <Loaded query={key} what="the key">
        {(data) => (
          <>
            {data.source === "config" ? (
              <Notice>This key stands in the configuration file. Change it there.</Notice>
            ) : null}
            {data.rotated ? (
              <Notice look="warn">
                The secret before the newest one works until {utc(data.rotated.previous_valid_until)}.
              </Notice>
            ) : null}
            <Facts facts={factsOf(data)} />
            <Section title="Budget and limits">
              <div className="card flex flex-col gap-4 p-4">
                <BudgetBar owner={data.name} of={data} />
                <Limits of={data} />
              </div>
            </Section>
            <p className="flex flex-wrap gap-4">
              <Link to="/requests" search={{ key: data.id }} className="link">
                Its requests
              </Link>
              <Link to="/" search={{ by: "key" }} className="link">
                Its part of the spending
              </Link>
            </p>
          </>
        )}
      </Loaded>
    </Screen>
  );
}

function factsOf(key: KeyWithLimit): Fact[] {
  const state = stateOf(key);
  return [
    { label: "State", value: <Badge look={state.look}>{state.text}</Badge> },
    { label: "Id", value: <code>{key.id}</code> },
    { label: "Role", value: key.role },
    {
      label: "Team",
      value: key.team ? (
        <Link to="/teams/$teamId" params={{ teamId: key.team }} className="link">
          {key.team}
        </Link>
      ) : (
        "none"
      ),
    },
    { label: "What ends first", value: bindingText(key.binding_limit) },
    { label: "Models", value: key.models ? key.models.join(", ") || "none" : "all" },
    { label: "Prompts and answers", value: key.log_payloads ? "kept for a time, masked" : "not kept" },
    {
      label: "End users and tags",
      value: key.trust_attribution ? "as its requests name them" : "not believed",
    },
    { label: "Created", value: key.created_at ? <Moment at={key.created_at} /> : "with the file" },
    { label: "Ends", value: key.expires_at ? utc(key.expires_at) : "never" },
    ...(key.metadata ? [{ label: "Metadata", value: <code>{JSON.stringify(key.metadata)}</code> }] : []),
  ];
}

type Limited = Pick<
  Schemas["Team"],
  "rpm" | "burst" | "tpm" | "max_in_flight" | "on_budget" | "unpriced" | "budget_usd"
>;

/** The limits in words. */
export function Limits({ of }: { of: Limited }) {
  const lines = [
    of.rpm === null ? null : `${count(of.rpm)} requests in any 60 seconds`,
    of.burst === null ? null : `at most ${count(of.burst)} of them at once`,
    of.tpm === null ? null : `${count(of.tpm)} tokens per minute`,
    of.max_in_flight === null ? null : `${count(of.max_in_flight)} requests in flight`,
    of.budget_usd !== null && of.on_budget === "cut" ? "answers are cut where the money ends" : null,
    of.budget_usd !== null && of.unpriced === "refuse" ? "models without a known price are refused" : null,
  ].filter((line) => line !== null);
  if (lines.length === 0) return <p className="text-muted">No other limits of its own.</p>;
  return (
    <ul className="list-disc pl-5">
      {lines.map((line) => (
        <li key={line}>{line}</li>
      ))}
    </ul>
  );
}
