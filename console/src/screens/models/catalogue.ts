import { useQuery } from "@tanstack/react-query";
import { client, type Schemas } from "@/api/client";

export type Model = Schemas["Model"];

function isModel(entry: object): entry is Model {
  return "object" in entry && entry.object === "model";
}

/** Every model that the signed-in key may use, aliases too. */
export function useModels() {
  return useQuery({
    queryKey: ["get", "/v1/models"],
    staleTime: 60_000,
    queryFn: async ({ signal }): Promise<Model[]> => {
      const { data } = await client.GET("/v1/models", { signal });
      // Google's clients get a list of another shape. A session gets this one.
      return data && "data" in data ? data.data.filter(isModel) : [];
    },
  });
}

/** One model by its id. */
export function useModel(id: string) {
  return useQuery({
    queryKey: ["get", "/v1/models/{model_id}", id],
    queryFn: async ({ signal }): Promise<Model> => {
      const params = { path: { model_id: id } };
      const { data } = await client.GET("/v1/models/{model_id}", { params, signal });
      if (!data || !isModel(data)) throw new Error("The gateway answered without a model.");
      return data;
    },
  });
}

/** Whether a model answers conversations. An unknown category counts as a chat. */
export function canChat(model: Model): boolean {
  const categories = model.category ?? [];
  return categories.length === 0 || !categories.every((name) => NO_CHAT.has(name));
}

const NO_CHAT = new Set([
  "embedding",
  "rerank",
  "moderation",
  "image",
  "audio",
  "speech",
  "transcription",
  "realtime",
  "video",
]);

export interface ModelFilters {
  search?: string | undefined;
  provider?: string | undefined;
  category?: string | undefined;
  feature?: string | undefined;
}

/** The models that match every filter. `search` looks for each of its words in the id, the name and the description. */
export function matching(models: readonly Model[], filters: ModelFilters): Model[] {
  const words = (filters.search ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  return models.filter((model) => {
    const text = `${model.id} ${model.name ?? ""} ${model.description ?? ""}`.toLowerCase();
    return (
      words.every((word) => text.includes(word)) &&
      (!filters.provider || model.provider === filters.provider) &&
      (!filters.category || model.category?.includes(filters.category)) &&
      (!filters.feature || model.features?.includes(filters.feature))
    );
  });
}

function distinct(values: readonly string[]): string[] {
  return [...new Set(values)].toSorted();
}

export function providersOf(models: readonly Model[]): string[] {
  return distinct(models.map((model) => model.provider));
}

export function categoriesOf(models: readonly Model[]): string[] {
  return distinct(models.flatMap((model) => model.category ?? []));
}

export function featuresOf(models: readonly Model[]): string[] {
  return distinct(models.flatMap((model) => model.features ?? []));
}

/** A name of the catalogue in words: `function_calling` is "function calling". */
export function words(name: string): string {
  return name.replaceAll("_", " ");
}
