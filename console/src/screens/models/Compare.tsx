import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { client, type Schemas } from "@/api/client";
import { Badge } from "@/components/Badge";
import { buttonClass } from "@/components/Button";
import { Loaded } from "@/components/Loaded";
import { Empty } from "@/components/Notice";
import { Screen } from "@/components/Screen";
import { count, percent, ratio, tokens, tokensPerSecond, UNKNOWN, usd } from "@/format/numbers";
import { duration } from "@/format/time";
import { type Model, useModels } from "./catalogue";
import { percentage } from "./columns";
import { MEASURED_DAYS, type Measured, useMeasured } from "./measured";
import { FEWEST, idsOf } from "./search";

const route = getRouteApi("/models/compare");
type Comparison = Schemas["ModelComparison"];

type Published = Comparison["comparison"][string];

/** What the comparison praises, and the figure that it is about. A model whose figure is unknown is not praised. */
const HIGHLIGHTS: {
  name: keyof Comparison["highlights"];
  label: string;
  figure: (model: Published) => number | null | undefined;
}[] = [
  { name: "cheapest", label: "cheapest", figure: (model) => model.pricing.gateway_output_per_m },
  { name: "fastest", label: "fastest", figure: (model) => model.performance.latency_p50_ms },
  { name: "best_quality", label: "best quality", figure: (model) => model.quality_scores.overall },
  { name: "best_code", label: "best code", figure: (model) => model.quality_scores.code },
  { name: "longest_context", label: "longest context", figure: (model) => model.context_length },
];

/** Two to four models side by side: what is published, and what this gateway measured. */
export function Compare() {
  const ids = idsOf(route.useSearch().models);
  const back = (
    <Link to="/models" search={{ compare: ids.join(",") || undefined }} className="link">
      Choose other models
    </Link>
  );
  if (ids.length < FEWEST) {
    return (
      <Screen title="Compare models">
        <Empty title="Choose two to four models.">{back}</Empty>
      </Screen>
    );
  }
  return (
    <Screen
      title="Compare models"
      lead={back}
      actions={
        <Link to="/playground" search={{ models: ids.join(",") }} className={buttonClass()}>
          Compare in the playground
        </Link>
      }
    >
      <Table ids={ids} />
    </Screen>
  );
}

function useComparison(ids: readonly string[]) {
  const models = ids.join(",");
  return useQuery({
    queryKey: ["get", "/v1/models/compare", models],
    queryFn: async ({ signal }): Promise<Comparison> => {
      const { data } = await client.GET("/v1/models/compare", { params: { query: { models } }, signal });
      if (!data) throw new Error("The gateway answered without a comparison.");
      return data;
    },
  });
}

interface Compared {
  id: string;
  published: Published | undefined;
  entry: Model | undefined;
  measured: Measured;
}

interface Line {
  label: string;
  cell: (model: Compared) => string;
}

const PUBLISHED: readonly Line[] = [
  { label: "Provider", cell: ({ published }) => published?.provider ?? UNKNOWN },
  { label: "Context", cell: ({ published }) => tokens(published?.context_length) },
  { label: "Longest answer", cell: ({ entry }) => tokens(entry?.max_output_tokens) },
  { label: "Input price / M tokens", cell: ({ published }) => usd(published?.pricing.gateway_input_per_m) },
  { label: "Output price / M tokens", cell: ({ published }) => usd(published?.pricing.gateway_output_per_m) },
  { label: "Latency p50", cell: ({ published }) => duration(published?.performance.latency_p50_ms) },
  { label: "Availability", cell: ({ published }) => percentage(published?.performance.availability) },
  { label: "Quality, overall", cell: ({ published }) => score(published?.quality_scores.overall) },
  { label: "Quality, code", cell: ({ published }) => score(published?.quality_scores.code) },
  { label: "Quality, mathematics", cell: ({ published }) => score(published?.quality_scores.math) },
  { label: "Quality, reasoning", cell: ({ published }) => score(published?.quality_scores.reasoning) },
];

const MEASURED: readonly Line[] = [
  { label: "Latency p50", cell: ({ measured }) => duration(measured.latencyP50Ms) },
  { label: "Latency p99", cell: ({ measured }) => duration(measured.latencyP99Ms) },
  { label: "Time to first token", cell: ({ measured }) => duration(measured.firstTokenMs) },
  { label: "Speed", cell: ({ measured }) => tokensPerSecond(measured.tokensPerSecond) },
  { label: "Availability", cell: ({ measured }) => percentage(measured.availability) },
  { label: "Recent calls", cell: ({ measured }) => count(measured.samples) },
  { label: `Requests in ${MEASURED_DAYS} days`, cell: ({ measured }) => count(measured.requests) },
  {
    label: `Failed in ${MEASURED_DAYS} days`,
    cell: ({ measured }) => percent(ratio(measured.failed, measured.requests)),
  },
  { label: `Cost in ${MEASURED_DAYS} days`, cell: ({ measured }) => usd(measured.costUsd) },
  { label: "Real cost / M tokens", cell: ({ measured }) => usd(measured.usdPerMillion) },
];

function score(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : String(value);
}

function Table({ ids }: { ids: readonly string[] }) {
  const comparison = useComparison(ids);
  const catalogue = useModels();
  const measured = useMeasured();
  return (
    <Loaded query={comparison} what="the comparison">
      {(data) => {
        const models = data.models.map((id) => ({
          id,
          published: data.comparison[id],
          entry: catalogue.data?.find((model) => model.id === id),
          measured: measured.of(id),
        }));
        return (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
          <div className="card overflow-x-auto" tabIndex={0}>
            <table className="w-full text-left" aria-label="Comparison">
              <thead>
                <tr>
                  <td className="sticky left-0 bg-surface" />
                  {models.map((model) => (
                    <th key={model.id} scope="col" className="min-w-32 px-3 py-2 align-top sm:min-w-40">
                      <Link to="/models/$modelId" params={{ modelId: model.id }} className="link">
                        {model.id}
                      </Link>
                      <Highlights model={model} highlights={data.highlights} />
                    </th>
                  ))}
                </tr>
              </thead>
              <Lines title="Published" lines={PUBLISHED} models={models} />
              {measured.mayRead ? (
                <Lines title="Measured by this gateway" lines={MEASURED} models={models} />
              ) : null}
            </table>
          </div>
        );
      }}
    </Loaded>
  );
}

function Highlights({ model, highlights }: { model: Compared; highlights: Comparison["highlights"] }) {
  const won = HIGHLIGHTS.filter(
    ({ name, figure }) =>
      highlights[name] === model.id && typeof (model.published && figure(model.published)) === "number",
  );
  if (won.length === 0) return null;
  return (
    <span className="mt-1 flex flex-wrap gap-1">
      {won.map((highlight) => (
        <Badge key={highlight.name} look="good">
          {highlight.label}
        </Badge>
      ))}
    </span>
  );
}

function Lines({
  title,
  lines,
  models,
}: {
  title: string;
  lines: readonly Line[];
  models: readonly Compared[];
}) {
  return (
    <tbody>
      <tr className="border-t border-line bg-raised">
        <th scope="rowgroup" colSpan={models.length + 1} className="px-3 py-1.5 font-semibold">
          {title}
        </th>
      </tr>
      {lines.map((line) => (
        <tr key={line.label} className="border-t border-line">
          <th
            scope="row"
            className="sticky left-0 bg-surface px-3 py-1.5 font-normal text-muted sm:whitespace-nowrap"
          >
            {line.label}
          </th>
          {models.map((model) => (
            <td key={model.id} className="px-3 py-1.5 tabular-nums">
              {line.cell(model)}
            </td>
          ))}
        </tr>
      ))}
    </tbody>
  );
}
