import { type Search, texts } from "@/app/urlState";

/** What the playground keeps in the address. `models` are ids between commas; `request` is a logged request to open. */
export function playgroundSearch(search: Search) {
  return texts(search, ["models", "request", "surface"]);
}

const MOST_MODELS = 4;

/** The models of the address, at most four. */
export function modelsOf(text: string | undefined): string[] {
  return (text ?? "")
    .split(",")
    .map((id) => id.trim())
    .filter(Boolean)
    .slice(0, MOST_MODELS);
}

export function mayAdd(models: readonly string[]): boolean {
  return models.length < MOST_MODELS;
}
