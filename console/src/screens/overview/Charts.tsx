import { useMemo } from "react";
import type { Overview } from "@/api/pending";
import { Chart, type ChartView } from "@/components/chart/Chart";
import { count, short, usd } from "@/format/numbers";
import { fillSeries, type Point } from "./series";

interface ChartsProps {
  overview: Overview;
  view: ChartView;
  onView: (view: ChartView) => void;
}

const succeeded = (point: Point) => point.requests - point.failed;
const axisUsd = (value: number) => (value === 0 ? "$0" : `$${Number(value.toPrecision(2))}`);

/** Spending, requests and tokens over time. */
export function Charts({ overview, view, onView }: ChartsProps) {
  const charts = useMemo(() => {
    const { times, points } = fillSeries(overview);
    const line = (label: string, value: (point: Point) => number) => ({
      label,
      values: points.map((point) => (point ? value(point) : 0)),
    });
    return [
      {
        title: "Spend",
        times,
        series: [line("Cost in USD", (p) => p.cost_usd)],
        format: usd,
        axisFormat: axisUsd,
        csvName: "spend",
      },
      {
        title: "Requests",
        times,
        series: [
          line("Answered", succeeded),
          line("Failed", (p) => p.failed),
          line("Cache hits", (p) => p.cache_hits),
        ],
        format: count,
        axisFormat: short,
        csvName: "requests",
      },
      {
        title: "Tokens",
        times,
        series: [line("Prompt", (p) => p.prompt_tokens), line("Completion", (p) => p.completion_tokens)],
        format: count,
        axisFormat: short,
        csvName: "tokens",
      },
    ];
  }, [overview]);
  return (
    <div className="grid gap-4 xl:grid-cols-3">
      {charts.map((chart) => (
        <Chart key={chart.title} {...chart} view={view} onView={onView} />
      ))}
    </div>
  );
}
