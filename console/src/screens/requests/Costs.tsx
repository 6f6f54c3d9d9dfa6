import { useMemo } from "react";
import type { CostLine, RequestDetail } from "@/api/pending";
import { Notice } from "@/components/Notice";
import { type Column, DataTable } from "@/components/table/DataTable";
import { cost, count, tokens, usd } from "@/format/numbers";

const KINDS: Record<string, string> = {
  prompt: "Prompt",
  cached: "Prompt from cache",
  cache_write: "Prompt to cache",
  cache_write_1h: "Prompt to cache, an hour",
  completion: "Completion",
  reasoning: "Reasoning",
};

const COLUMNS: readonly Column<CostLine>[] = [
  { id: "kind", header: "Kind", value: (line) => KINDS[line.kind] ?? line.kind },
  {
    id: "tokens",
    header: "Tokens",
    value: (line) => line.tokens,
    cell: (line) => count(line.tokens),
    isNumber: true,
  },
  {
    id: "price",
    header: "Price per million",
    value: (line) => line.usd_per_million,
    cell: (line) => (line.usd_per_million === null ? "unknown" : usd(line.usd_per_million)),
    isNumber: true,
  },
  {
    id: "cost",
    header: "Cost",
    value: (line) => line.cost_usd,
    cell: (line) => cost(line.cost_usd),
    isNumber: true,
  },
];

/** The tokens of a request, each kind with its price and its cost. */
export function Costs({ request }: { request: RequestDetail }) {
  const breakdown = request.cost;
  const lines = useMemo(() => breakdown?.lines ?? tokensOnly(request), [breakdown, request]);
  return (
    <div className="flex flex-col gap-3">
      <DataTable
        label="Tokens and cost"
        columns={COLUMNS}
        rows={lines}
        rowKey={(line) => line.kind}
        csvName={`cost-${request.request_id}`}
      />
      <p>
        Total: {tokens(request.total_tokens)},{" "}
        <strong>{cost(request.cost_usd, request.unpriced ?? false)}</strong>
        {breakdown && breakdown.other_attempts_usd > 0
          ? `, of which ${usd(breakdown.other_attempts_usd)} for calls that did not answer`
          : ""}
        . {breakdown ? priceText(breakdown) : noBreakdown(request)}
      </p>
      {breakdown && !breakdown.matches_log ? (
        <Notice look="warn">
          The prices have changed since: with the prices of today the lines add up to{" "}
          {usd(breakdown.total_usd)}. The log keeps what was charged.
        </Notice>
      ) : null}
    </div>
  );
}

/** Which prices the lines have, and of when. */
function priceText({ model, price_source, price_as_of }: NonNullable<RequestDetail["cost"]>): string {
  const source = price_source ? ` from ${price_source}` : "";
  return `Prices of ${model}${source}${price_as_of ? `, as of ${price_as_of}` : ""}.`;
}

function noBreakdown(request: RequestDetail): string {
  if (request.cache_hit) return `The answer came from the cache and saved ${usd(request.saved_usd)}.`;
  return "No price of this model is known.";
}

/** The counted tokens, for a request whose prices are not known. */
function tokensOnly(request: RequestDetail): CostLine[] {
  const unknown = { usd_per_million: null, cost_usd: request.cache_hit ? 0 : null };
  return [
    { kind: "prompt", tokens: request.prompt_tokens, ...unknown },
    { kind: "cached", tokens: request.cached_tokens, ...unknown },
    { kind: "completion", tokens: request.completion_tokens, ...unknown },
  ];
}
