import { type Search, texts } from "@/app/urlState";

export type ModelsSearch = {
  [name in "search" | "provider" | "category" | "feature" | "sort" | "compare"]?: string | undefined;
};

/** What the catalogue keeps in the address. `compare` holds the chosen ids between commas. */
export function modelsSearch(search: Search): ModelsSearch {
  return texts(search, ["search", "provider", "category", "feature", "sort", "compare"]);
}

/** How many models can be compared at once. */
export const FEWEST = 2;
export const MOST = 4;

/** Ids between commas. */
export function idsOf(text: string | undefined): string[] {
  return (text ?? "")
    .split(",")
    .map((id) => id.trim())
    .filter(Boolean)
    .slice(0, MOST);
}
