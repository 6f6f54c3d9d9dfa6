// URLs and members that the OpenAPI document does not describe yet, in the form of its generated types.
import type { components, paths } from "./schema";

type Sums = components["schemas"]["UsageSums"];
type Row = components["schemas"]["LoggedRequest"];
type Answer<T> = { headers: { [name: string]: unknown }; content: { "application/json": T } };
type Nothing = { query?: never; header?: never; path?: never; cookie?: never };

/** An operation with a simpler body: which members need each other is more than these types can say. */
type WithBody<Operation, Body> = Omit<Operation, "requestBody"> & {
  requestBody: { content: { "application/json": Body } };
};

/** What limits a key or a team. */
export type Limits = Pick<
  components["schemas"]["KeyFields"],
  "rpm" | "burst" | "tpm" | "max_in_flight" | "budget_usd" | "budget_period" | "on_budget" | "unpriced"
>;

export interface Session {
  object: "session";
  signed_in: boolean;
  ways: { key: boolean; link: boolean; oidc: { url: string; issuer: string } | null };
  host: string;
  host_is_known: boolean;
  can_keep_cookie: boolean;
  advice: string | null;
  kind?: "key" | "oidc";
  id?: string;
  name?: string;
  team?: string | null;
  role?: "inference" | "viewer" | "operator" | "admin";
  rights?: {
    read: boolean;
    operate: boolean;
    configure: boolean;
    generate: boolean;
    read_payloads: boolean;
  };
  expires_at?: string;
  api?: { same_origin: boolean; listen: string; public_url: string | null };
  version?: string;
}

export interface Percentiles {
  p50: number;
  p95: number;
}

export interface Overview {
  object: "overview";
  as_of: string;
  since: string;
  until: string;
  interval: "hour" | "day";
  by: string;
  total: Sums;
  previous: { since: string; until: string; total: Sums } | null;
  series: (Sums & { at: string })[];
  groups: (Sums & { group: string | null; name: string | null })[];
  speed: {
    samples: number;
    since: string | null;
    is_complete: boolean;
    latency_ms: Percentiles | null;
    ttft_ms: Percentiles | null;
    tokens_per_second: Percentiles | null;
    fallbacks: number | null;
  };
}

export interface RequestFilters {
  key?: string;
  team?: string;
  model?: string;
  provider?: string;
  session?: string;
  surface?: string;
  status?: string;
  cost_min?: string;
  latency_min_ms?: string;
  error?: string;
}

export interface RequestPage {
  object: "list";
  data: Row[];
  has_more: boolean;
  next: string | null;
  searched?: number;
}

export interface CostLine {
  kind: string;
  tokens: number;
  usd_per_million: number | null;
  cost_usd: number | null;
}

type Attempt = NonNullable<Row["attempts"]>[number] & { started_ms?: number | null; error?: string | null };

export type RequestDetail = Omit<Row, "attempts"> & {
  attempts?: Attempt[];
  warnings?: string[] | null;
  cost?: {
    currency: string;
    model: string;
    price_as_of: string | null;
    price_source?: string | null;
    lines: CostLine[];
    other_attempts_usd: number;
    total_usd: number;
    matches_log: boolean;
  } | null;
  neighbours?:
    | {
        request_id: string;
        at: string;
        model: string | null;
        status: string;
        cost_usd: number | null;
        latency_ms: number;
        is_this: boolean;
      }[]
    | null;
};

export interface BindingLimit {
  scope: "key" | "team";
  limit: "requests_per_minute" | "tokens_per_minute" | "in_flight" | "budget";
  left: number;
  left_percent: number;
}

export type KeyWithLimit = components["schemas"]["Key"] & { binding_limit?: BindingLimit | null };

export interface PendingPaths {
  "/auth/session": { parameters: Nothing; get: { parameters: Nothing; responses: { 200: Answer<Session> } } };
  "/auth/key": {
    parameters: Nothing;
    post: {
      parameters: Nothing;
      requestBody: { content: { "application/json": { key: string } } };
      responses: { 200: Answer<Session> };
    };
  };
  "/auth/link": {
    parameters: Nothing;
    post: {
      parameters: Nothing;
      requestBody: { content: { "application/json": { token: string } } };
      responses: { 200: Answer<Session> };
    };
  };
  "/admin/v1/overview": {
    parameters: Nothing;
    get: {
      parameters: {
        query?: {
          since?: string;
          until?: string;
          by?: "model" | "provider" | "key" | "team" | "surface";
          compare?: boolean;
        };
        header?: never;
        path?: never;
        cookie?: never;
      };
      responses: { 200: Answer<Overview> };
    };
  };
  "/admin/v1/requests": {
    parameters: Nothing;
    get: {
      parameters: {
        query?: RequestFilters & { since?: string; until?: string; limit?: number; after?: string };
        header?: never;
        path?: never;
        cookie?: never;
      };
      responses: { 200: Answer<RequestPage> };
    };
  };
  "/admin/v1/requests/{request_id}": {
    parameters: Nothing;
    get: {
      parameters: { query?: never; header?: never; path: { request_id: string }; cookie?: never };
      responses: { 200: Answer<RequestDetail> };
    };
    delete?: never;
  };
  "/admin/v1/keys": Omit<paths["/admin/v1/keys"], "get" | "post"> & {
    get: Omit<paths["/admin/v1/keys"]["get"], "responses"> & {
      responses: {
        200: Answer<{ object: "list"; data: KeyWithLimit[]; has_more: boolean; next: string | null }>;
      };
    };
    post: WithBody<paths["/admin/v1/keys"]["post"], components["schemas"]["KeyFields"]>;
  };
  "/admin/v1/teams/{team_id}": Omit<paths["/admin/v1/teams/{team_id}"], "put"> & {
    put: WithBody<paths["/admin/v1/teams/{team_id}"]["put"], Limits>;
  };
}
