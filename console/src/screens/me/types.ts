import type { Paths } from "@/api/client";

/** The answer of `GET /v1/me`. */
export type Mine = Paths["/v1/me"]["get"]["responses"]["200"]["content"]["application/json"];
