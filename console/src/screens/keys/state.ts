import type { Schemas } from "@/api/client";
import type { BadgeLook } from "@/components/Badge";

type Lifetime = Pick<Schemas["Key"], "revoked_at" | "expires_at">;

/** Whether a key works. */
export function stateOf(key: Lifetime, now: Date = new Date()): { text: string; look: BadgeLook } {
  if (key.revoked_at !== null) return { text: "revoked", look: "bad" };
  if (key.expires_at !== null && new Date(key.expires_at) <= now) return { text: "expired", look: "bad" };
  return { text: "works", look: "good" };
}
