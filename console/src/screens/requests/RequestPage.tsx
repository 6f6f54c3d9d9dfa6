import { getRouteApi, Link } from "@tanstack/react-router";
import { api } from "@/api/client";
import type { RequestDetail } from "@/api/pending";
import { useSignedIn } from "@/api/session";
import { apiBase } from "@/app/places";
import { Status } from "@/components/Badge";
import { buttonClass } from "@/components/Button";
import { Copy } from "@/components/Copy";
import { type Fact, Facts } from "@/components/Facts";
import { Loaded } from "@/components/Loaded";
import { Screen, Section } from "@/components/Screen";
import { cost, tokens, usd } from "@/format/numbers";
import { duration, utcMillis } from "@/format/time";
import { Attempts } from "./Attempts";
import { Costs } from "./Costs";
import { curlOf } from "./curl";
import { Neighbours } from "./Neighbours";
import { Payload } from "./Payload";
import { PromptCache } from "./PromptCache";
import { RouteTaken } from "./RouteTaken";

const route = getRouteApi("/requests/$requestId");

/** One request: what was called, why, what it cost, and what was said if that was kept. */
export function RequestPage() {
  const { requestId } = route.useParams();
  const request = api.useQuery("get", "/admin/v1/requests/{request_id}", {
    params: { path: { request_id: requestId } },
  });
  return (
    <Screen
      title={`Request ${requestId}`}
      lead={
        <Link to="/requests" className="link">
          All requests
        </Link>
      }
      actions={request.data ? <Actions request={request.data} /> : null}
    >
      <Loaded query={request} what="the request">
        {(data) => (
          <>
            <Facts facts={factsOf(data)} />
            <Section title="Upstream calls">
              <Attempts request={data} />
            </Section>
            <Section title="Why this route">
              <RouteTaken request={data} />
            </Section>
            <Section title="Tokens and cost">
              <Costs request={data} />
            </Section>
            {data.prompt_cache ? (
              <Section title="Prompt cache of the provider">
                <PromptCache use={data.prompt_cache} />
              </Section>
            ) : null}
            <Section title="Prompt and answer">
              <Payload request={data} />
            </Section>
            <Section title="Its session">
              <Neighbours request={data} />
            </Section>
          </>
        )}
      </Loaded>
    </Screen>
  );
}

function Actions({ request }: { request: RequestDetail }) {
  const { rights, api: served } = useSignedIn();
  return (
    <>
      <Copy
        label="Copy as curl"
        text={() => curlOf(request, served.same_origin ? apiBase : `http://${served.listen}/v1`)}
      />
      {rights.generate && served.same_origin ? (
        <Link
          to="/playground"
          search={{ request: request.request_id, models: request.requested_model }}
          className={buttonClass()}
        >
          Open in the playground
        </Link>
      ) : null}
    </>
  );
}

function cacheState(request: RequestDetail): string {
  if (request.cache_hit) return `answered from the cache, saved ${usd(request.saved_usd)}`;
  return "not from the cache: no equal answer was stored, or the request did not ask for it";
}

/** Who caused the request, with links to the other requests of each name. */
function attribution(request: RequestDetail): Fact[] {
  const { end_user, tags, repository, branch, pull_request } = request;
  const facts: Fact[] = [
    { label: "End user", value: end_user ? <Narrowed filter="end_user" value={end_user} /> : "none" },
  ];
  if (tags && tags.length > 0) {
    const value = (
      <span className="flex flex-wrap gap-x-3">
        {tags.map((tag) => (
          <Narrowed key={tag} filter="tag" value={tag} />
        ))}
      </span>
    );
    facts.push({ label: "Tags", value });
  }
  for (const [filter, label, value] of [
    ["repository", "Repository", repository],
    ["branch", "Branch", branch],
    ["pull_request", "Pull request", pull_request],
  ] as const) {
    if (value) facts.push({ label, value: <Narrowed filter={filter} value={value} /> });
  }
  return facts;
}

interface NarrowedProps {
  filter: "end_user" | "tag" | "repository" | "branch" | "pull_request";
  value: string;
}

function Narrowed({ filter, value }: NarrowedProps) {
  return (
    <Link to="/requests" search={{ [filter]: value }} className="link min-w-0 wrap-anywhere">
      {value}
    </Link>
  );
}

function factsOf(request: RequestDetail): Fact[] {
  return [
    { label: "Status", value: <Status status={request.status} /> },
    { label: "Time", value: utcMillis(request.at) },
    { label: "Asked for", value: request.requested_model },
    { label: "Answered by", value: request.model ?? "no model" },
    { label: "Provider", value: request.provider ?? "none" },
    {
      label: "Key",
      value: (
        <Link to="/keys/$keyId" params={{ keyId: request.key }} className="link">
          {request.key_name || request.key}
        </Link>
      ),
    },
    { label: "Team", value: request.team ?? "none" },
    { label: "Surface", value: `${request.surface}${request.stream ? ", streamed" : ""}` },
    { label: "Latency", value: duration(request.latency_ms) },
    { label: "Time to first token", value: duration(request.ttft_ms) },
    { label: "Tokens", value: `${tokens(request.total_tokens)}${request.estimated ? " (estimated)" : ""}` },
    { label: "Cost", value: cost(request.cost_usd, request.unpriced ?? false) },
    { label: "Cache", value: cacheState(request) },
    ...attribution(request),
    { label: "User in the body", value: request.user ?? "none" },
    { label: "Address of the client", value: request.client ?? "unknown" },
  ];
}
