import { getRouteApi, Link } from "@tanstack/react-router";
import { useSignedIn } from "@/api/session";
import { gatewayRoot } from "@/app/places";
import { Button } from "@/components/Button";
import { Copy } from "@/components/Copy";
import { TextField } from "@/components/Field";
import { Notice } from "@/components/Notice";
import { Screen, Section } from "@/components/Screen";
import { canChat, useModels } from "../models/catalogue";
import { ModelSelect } from "../models/ModelSelect";
import { type Endpoint, originOf, PLACEHOLDER } from "./endpoint";
import { FirstRequest } from "./FirstRequest";
import { useOfferedKey, useOfferKey } from "./newKey";
import { CLIENTS, type Client, type Step } from "./snippets";

const route = getRouteApi("/clients");

/** Every client with this gateway's address, a model and a key filled in. */
export function Clients() {
  const { api } = useSignedIn();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: { client?: string; model?: string }) =>
    navigate({ search: (now) => ({ ...now, ...next }), replace: true, resetScroll: false });
  const models = useModels();
  const offered = useOfferedKey();
  const id = search.model ?? models.data?.find(canChat)?.id ?? "demo/chat";
  const model = models.data?.find((other) => other.id === id);
  const endpoint: Endpoint = {
    origin: originOf(gatewayRoot.href, api, window.location.hostname),
    model: id,
    key: offered ?? PLACEHOLDER,
    context: model?.context_length ?? null,
    maxOutput: model?.max_output_tokens ?? null,
  };
  const chosen = CLIENTS.find((other) => other.id === search.client) ?? CLIENTS[0];
  return (
    <Screen
      title="Client set-up"
      lead="Choose a program. The address, the model and the key are filled in: copy, paste, and watch the first request arrive."
    >
      <FirstRequest />
      <div className="card grid gap-3 p-4 md:grid-cols-3">
        <TextField label="Address" readOnly value={endpoint.origin} />
        <ModelSelect label="Model" value={id} onChange={(next) => change({ model: next })} />
        <KeyFacts />
      </div>
      <div className="grid gap-5 lg:grid-cols-[14rem_minmax(0,1fr)]">
        <Programs chosen={chosen?.id} model={search.model} />
        {chosen ? <Steps client={chosen} endpoint={endpoint} /> : null}
      </div>
    </Screen>
  );
}

/** Which key the texts hold. */
function KeyFacts() {
  const { rights } = useSignedIn();
  const offered = useOfferedKey();
  const offer = useOfferKey();
  if (offered) {
    return (
      <div className="flex flex-col items-start gap-1">
        <span className="font-medium">Key</span>
        <p className="text-muted">
          The key that you have just made is filled in. Only this page remembers it.
        </p>
        <Button onClick={() => offer(null)}>Forget the key</Button>
      </div>
    );
  }
  return (
    <div className="flex flex-col items-start gap-1">
      <span className="font-medium">Key</span>
      <p className="text-muted">
        Write your key where <code>{PLACEHOLDER}</code> stands. The gateway does not know its secret any more.
      </p>
      {rights.operate ? (
        <Link to="/keys" className="link">
          Make a key
        </Link>
      ) : null}
    </div>
  );
}

function Programs({ chosen, model }: { chosen: string | undefined; model: string | undefined }) {
  const groups = [...new Set(CLIENTS.map((other) => other.group))];
  return (
    <section aria-label="Programs" className="min-w-0">
      {groups.map((group) => (
        <div key={group} className="mb-3">
          <p className="pb-1 text-xs font-medium text-muted">{group}</p>
          <ul className="flex flex-wrap gap-1 lg:flex-col">
            {CLIENTS.filter((other) => other.group === group).map((other) => (
              <li key={other.id}>
                <Link
                  to="/clients"
                  search={{ client: other.id, model }}
                  replace
                  resetScroll={false}
                  aria-current={other.id === chosen ? "true" : undefined}
                  className={`block rounded-md px-2 py-1.5 hover:bg-raised ${other.id === chosen ? "bg-tint font-medium text-accent" : ""}`}
                >
                  {other.name}
                </Link>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </section>
  );
}

function Steps({ client, endpoint }: { client: Client; endpoint: Endpoint }) {
  const steps = client.steps(endpoint);
  return (
    <Section title={client.name} lead={client.lead}>
      <ol className="flex flex-col gap-4">
        {steps.map((step) => (
          <StepCard key={step.title} step={step} />
        ))}
      </ol>
      {endpoint.origin.startsWith("http://") && !isLoopback(endpoint.origin) ? (
        <div className="mt-4">
          <Notice look="warn">
            This address has no TLS: keys and prompts cross the network in the clear.
          </Notice>
        </div>
      ) : null}
    </Section>
  );
}

function isLoopback(origin: string): boolean {
  return /^http:\/\/(127\.|localhost|\[::1\])/.test(origin);
}

function StepCard({ step }: { step: Step }) {
  return (
    <li className="flex min-w-0 flex-col gap-2">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <h3>{step.title}</h3>
        <div className="flex items-center gap-2">
          <Copy text={step.code} />
        </div>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
      <pre tabIndex={0} className="code overflow-x-auto">
        {step.code}
      </pre>
      {step.note ? <p className="text-muted">{step.note}</p> : null}
    </li>
  );
}
