import type { Paths } from "@/api/client";
import type { BadgeLook } from "@/components/Badge";

type Answer = Paths["/admin/v1/providers"]["get"]["responses"]["200"]["content"]["application/json"];
export type Provider = Answer["data"][number];
export type ProviderKey = Provider["keys"][number];
export type Target = NonNullable<Provider["targets"]>[number];

interface Words {
  text: string;
  look: BadgeLook;
}

const STANDINGS: Record<Target["standing"], Words> = {
  able: { text: "able", look: "good" },
  ramping: { text: "ramping: gets a part of its requests", look: "warn" },
  resting: { text: "resting: asked to wait", look: "warn" },
  open: { text: "circuit open: gets no requests", look: "bad" },
  probing: { text: "probing: one request tries it", look: "warn" },
  ready_for_probe: { text: "ready for a probe", look: "warn" },
};

/** The state of a model's circuit breaker in words. */
export function standingWords(standing: Target["standing"]): Words {
  return STANDINGS[standing];
}

const KEYS: Record<ProviderKey["state"], Words> = {
  // A key that was never used is in this state, too, so it is no praise.
  alive: { text: "not refused", look: "plain" },
  dead: { text: "refused", look: "bad" },
  resting: { text: "rests", look: "warn" },
};

/** The state of a provider's key in words, with the status that caused it. */
export function keyWords(key: ProviderKey): Words {
  const { text, look } = KEYS[key.state];
  const status = key.status === null ? "" : ` (status ${key.status})`;
  const again =
    key.tried_again_in_seconds === null ? "" : `, tried again in ${Math.ceil(key.tried_again_in_seconds)} s`;
  return { text: `Key ${key.key} ${text}${status}${again}`, look };
}
