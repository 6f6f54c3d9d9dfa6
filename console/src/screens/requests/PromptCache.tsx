import type { RequestDetail } from "@/api/pending";
import { type Fact, Facts } from "@/components/Facts";
import { Notice } from "@/components/Notice";
import { tokens, usd } from "@/format/numbers";
import { missText, type PromptCacheUse } from "./promptCache";

/** The tokens that the provider read from and wrote to its prompt cache, with their effect on the cost. */
export function PromptCache({ use }: { use: NonNullable<RequestDetail["prompt_cache"]> }) {
  return (
    <div className="flex flex-col gap-3">
      <Facts facts={factsOf(use)} />
      {use.reason === "below_break_even" ? (
        <Notice>
          The gateway puts no markers into these requests for an hour: writing the cache cost more than
          reading it saved.
        </Notice>
      ) : null}
      {use.miss ? <Notice look="warn">{missText(use.miss)}</Notice> : null}
    </div>
  );
}

function factsOf(use: PromptCacheUse): Fact[] {
  return [
    { label: "Markers", value: use.inserted ? "from the gateway" : "none from the gateway" },
    { label: "Read", value: tokens(use.read_tokens) },
    { label: "Written", value: tokens(use.write_tokens) },
    { label: "Saved by reading", value: usd(use.saved_usd) },
    { label: "Surcharge of writing", value: usd(use.surcharge_usd) },
  ];
}
