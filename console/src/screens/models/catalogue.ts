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
      return (data?.data ?? []).filter(isModel);
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
  "video",
]);
