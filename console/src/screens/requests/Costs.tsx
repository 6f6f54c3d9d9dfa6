import { useMemo } from "react";
import type { CostLine, RequestDetail } from "@/api/pending";
import { Notice } from "@/components/Notice";
import { type Column, DataTable } from "@/components/table/DataTable";
import { cost, count, decimal, tokens, usd } from "@/format/numbers";

const KINDS: Record<string, string> = {
  prompt: "Prompt",
  cached: "Prompt from cache",
  cache_write: "Prompt to cache",
  cache_write_1h: "Prompt to cache, an hour",
  audio_prompt: "Prompt, audio tokens",
  image_prompt: "Prompt, image tokens",
  completion: "Completion",
  audio_completion: "Completion, audio tokens",
  image_completion: "Completion, image tokens",
  query: "Request",
  search_unit: "Search unit",
  image: "Image",
  second: "Second",
  character: "Character",
  page: "Page",
  pixel: "Pixel",
  web_search_per_call: "Web search",
  web_fetch_per_call: "Web page read",
  file_search_per_call: "File search",
  code_interpreter_per_container: "Code container",
  code_interpreter_per_call: "Code run",
  web_search_per_answer: "Answer with a web search",
  search_request_low: "Request with search, small context",
  search_request_medium: "Request with search, medium context",
  search_request_high: "Request with search, large context",
};

const COLUMNS: readonly Column<CostLine>[] = [
  { id: "kind", header: "Kind", value: (line) => KINDS[line.kind] ?? line.kind },
  {
    id: "count",
    header: "Count",
    value: (line) => line.count,
    cell: (line) => (line.isTokens ? count(line.count) : decimal(line.count)),
    isNumber: true,
  },
  {
    id: "price",
    header: "Price per million",
    value: (line) => line.price_usd,
    cell: (line) => (line.price_usd === null ? "unknown" : priceOf(line.price_usd, line.isTokens)),
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

function priceOf(price: number, isTokens: boolean): string {
  return isTokens ? usd(price) : `${usd(price)} each`;
}

/** The units of a request, each kind with its price and its cost. */
export function Costs({ request }: { request: RequestDetail }) {
  const breakdown = request.cost;
  const wasCalled = breakdown || request.cache_hit || (request.attempts ?? []).length > 0;
  const lines = useMemo(() => (breakdown ? linesOf(breakdown) : tokensOnly(request)), [breakdown, request]);
  if (!wasCalled && request.total_tokens === 0) {
    return <p>Nothing was used: no upstream call was made. Total: {cost(request.cost_usd)}.</p>;
  }
  return (
    <div className="flex flex-col gap-3">
      <DataTable
        label="Units and cost"
        columns={COLUMNS}
        rows={lines}
        rowKey={(line) => `${line.kind} ${line.price_usd}`}
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

/** The lines that were charged: tokens, then units and calls of hosted tools. */
function linesOf({ lines, units }: NonNullable<RequestDetail["cost"]>): CostLine[] {
  const ofTokens = lines.map(({ kind, tokens, usd_per_million, cost_usd }) => ({
    kind,
    count: tokens,
    isTokens: true,
    price_usd: usd_per_million,
    cost_usd,
  }));
  const ofUnits = (units ?? []).map(({ unit, count, usd_per_unit, cost_usd }) => ({
    kind: unit,
    count,
    isTokens: false,
    price_usd: usd_per_unit,
    cost_usd,
  }));
  return [...ofTokens, ...ofUnits];
}

/** The counted tokens, for a request whose prices are not known. */
function tokensOnly(request: RequestDetail): CostLine[] {
  const unknown = { isTokens: true, price_usd: null, cost_usd: request.cache_hit ? 0 : null };
  return [
    { kind: "prompt", count: request.prompt_tokens, ...unknown },
    { kind: "cached", count: request.cached_tokens, ...unknown },
    { kind: "completion", count: request.completion_tokens, ...unknown },
  ];
}
