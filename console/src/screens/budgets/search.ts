import { oneOf, type Search } from "@/app/urlState";

export interface BudgetsSearch {
  tab?: "rules" | "alerts" | undefined;
}

/** What the budgets and the alerts keep in the address. */
export function budgetsSearch(search: Search): BudgetsSearch {
  const tab = oneOf(search, "tab", ["rules", "alerts"]);
  return tab === "rules" ? {} : { tab };
}
