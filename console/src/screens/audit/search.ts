import { type Search, texts } from "@/app/urlState";

export const FILTERS = ["actor", "action", "object", "since", "until"] as const;

/** What the audit log keeps in the address. `row` is the number of the row whose change is shown. */
export type AuditSearch = { [name in (typeof FILTERS)[number] | "row"]?: string | undefined };

export function auditSearch(search: Search): AuditSearch {
  return texts(search, [...FILTERS, "row"]);
}
