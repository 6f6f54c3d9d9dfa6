// Names for types of the OpenAPI document, and bodies that are simpler than it describes them.
import type { components, paths } from "./schema";

type Schemas = components["schemas"];

/** An operation with a simpler body: which members need each other is more than these types can say. */
type WithBody<Operation, Body> = Omit<Operation, "requestBody"> & {
  requestBody: { content: { "application/json": Body } };
};

/** What limits a key or a team. */
export type Limits = Pick<
  Schemas["KeyFields"],
  "rpm" | "burst" | "tpm" | "max_in_flight" | "budget_usd" | "budget_period" | "on_budget" | "unpriced"
>;

export type Session = Schemas["BrowserSession"];
export type Overview = Schemas["Overview"];
export type Percentiles = NonNullable<Overview["speed"]["latency_ms"]>;
export type KeyWithLimit = Schemas["Key"];
export type BindingLimit = NonNullable<KeyWithLimit["binding_limit"]>;
export type RequestDetail = Schemas["LoggedRequest"];

/** Units of one kind with their price, for tokens that of a million. Without a price only the count is known. */
export interface CostLine {
  kind: string;
  count: number;
  isTokens: boolean;
  price_usd: number | null;
  cost_usd: number | null;
}

type Get<Path extends keyof paths> = paths[Path] extends { get: infer Operation } ? Operation : never;

export interface PendingPaths {
  // The client asks for JSON; a browser's navigation gets a page.
  "/auth/session": Omit<paths["/auth/session"], "get"> & {
    get: Omit<Get<"/auth/session">, "responses"> & {
      responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": Session } } };
    };
  };
  // Filters are what the reader typed; the gateway says what is wrong with them.
  "/admin/v1/requests": Omit<paths["/admin/v1/requests"], "get"> & {
    get: Omit<Get<"/admin/v1/requests">, "parameters"> & {
      parameters: {
        query?: { [filter: string]: string | number | undefined };
        header?: never;
        path?: never;
        cookie?: never;
      };
    };
  };
  "/admin/v1/keys": Omit<paths["/admin/v1/keys"], "post"> & {
    post: WithBody<paths["/admin/v1/keys"]["post"], Schemas["KeyFields"]>;
  };
  "/admin/v1/teams/{team_id}": Omit<paths["/admin/v1/teams/{team_id}"], "put"> & {
    put: WithBody<paths["/admin/v1/teams/{team_id}"]["put"], Limits>;
  };
}
