import { useMemo } from "react";
import { api, type Schemas } from "@/api/client";
import { useRight } from "@/api/session";

/** What this gateway measured and charged for a model. */
export interface Measured {
  latencyP50Ms: number | null;
  latencyP99Ms: number | null;
  firstTokenMs: number | null;
  tokensPerSecond: number | null;
  availability: number | null;
  samples: number | null;
  requests: number | null;
  failed: number | null;
  costUsd: number | null;
  /** What a million tokens really cost: prompt and completion together. */
  usdPerMillion: number | null;
}

const NOTHING: Measured = {
  latencyP50Ms: null,
  latencyP99Ms: null,
  firstTokenMs: null,
  tokensPerSecond: null,
  availability: null,
  samples: null,
  requests: null,
  failed: null,
  costUsd: null,
  usdPerMillion: null,
};

interface Target {
  model: string;
  samples?: number;
  availability?: number | null;
  latency_p50_ms?: number | null;
  latency_p99_ms?: number | null;
  first_token_ms?: number | null;
  tokens_per_second?: number | null;
}

type Sums = Schemas["UsageSums"] & { model?: string | null };

/** The figures of one model out of the providers' health and the usage. */
export function measuredOf(
  id: string,
  targets: readonly Target[] | undefined,
  usage: readonly Sums[] | undefined,
): Measured {
  const target = targets?.find((other) => other.model === id);
  const sums = usage?.find((other) => other.model === id);
  const priced = sums && sums.unpriced_requests === 0 && sums.total_tokens > 0 ? sums : undefined;
  return {
    ...NOTHING,
    latencyP50Ms: target?.latency_p50_ms ?? null,
    latencyP99Ms: target?.latency_p99_ms ?? null,
    firstTokenMs: target?.first_token_ms ?? null,
    tokensPerSecond: target?.tokens_per_second ?? null,
    availability: target?.availability ?? null,
    samples: target?.samples ?? null,
    requests: sums?.requests ?? null,
    failed: sums?.failed ?? null,
    costUsd: sums?.cost_usd ?? null,
    usdPerMillion: priced ? (priced.cost_usd / priced.total_tokens) * 1_000_000 : null,
  };
}

/** How far back the usage beside a model reaches. */
export const MEASURED_DAYS = 30;

/** Our own figures for models: nothing for keys that may not read the management API. */
export function useMeasured(): { of: (id: string) => Measured; mayRead: boolean } {
  const mayRead = useRight("read");
  const providers = api.useQuery("get", "/admin/v1/providers", {}, { enabled: mayRead });
  const usage = api.useQuery(
    "get",
    "/admin/v1/usage",
    { params: { query: { by: "model", since: `${MEASURED_DAYS}d` } } },
    { enabled: mayRead },
  );
  return useMemo(() => {
    const targets = providers.data?.data.flatMap((provider) => provider.targets ?? []);
    const report: unknown = usage.data;
    const rows = isReport(report) ? report.data : undefined;
    return { mayRead, of: (id: string) => measuredOf(id, targets, rows) };
  }, [mayRead, providers.data, usage.data]);
}

function isReport(value: unknown): value is { data: Sums[] } {
  return typeof value === "object" && value !== null && "data" in value && Array.isArray(value.data);
}
