import type { RequestDetail } from "@/api/pending";
import { tokens, usd } from "@/format/numbers";

export type PromptCacheUse = NonNullable<RequestDetail["prompt_cache"]>;
export type Miss = NonNullable<PromptCacheUse["miss"]>;

/** Why the provider read fewer tokens than the request before left in its cache. */
export function missText(miss: Miss): string {
  const lost = miss.lost_usd === null ? "" : `, which cost ${usd(miss.lost_usd)}`;
  return `${tokens(miss.lost_tokens)} less than the session's last request left in the cache${lost}. ${causeText(miss)}`;
}

function causeText({ cause, index, age_seconds, ttl_seconds }: Miss): string {
  switch (cause) {
    case "target":
      return "Another model or provider answered that request.";
    case "tools":
      return "The list of tools has changed.";
    case "system":
      return "The system prompt has changed.";
    case "message":
      return `Message ${(index ?? 0) + 1} has changed.`;
    case "expired":
      return `The entry was ${age_seconds} s old, and entries live ${ttl_seconds} s.`;
    case "provider":
      return "The prompt begins as before, and the entry is young enough: the provider did not find it.";
    default:
      return `Cause: ${cause}.`;
  }
}
