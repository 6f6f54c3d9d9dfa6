import { lazy, Suspense, useMemo, useState } from "react";
import { utc } from "@/format/time";
import { Loading } from "../Notice";
import { type Column, DataTable } from "../table/DataTable";

const Plot = lazy(() => import("./Plot"));

export interface ChartSeries {
  label: string;
  values: readonly (number | null)[];
}

export type ChartView = "chart" | "table";

interface ChartProps {
  title: string;
  /** The moments of the values, in unix seconds. */
  times: readonly number[];
  series: readonly ChartSeries[];
  /** A value with its unit. */
  format: (value: number) => string;
  /** A value on the axis. */
  axisFormat?: (value: number) => string;
  view: ChartView;
  onView: (view: ChartView) => void;
  csvName: string;
}

const HEIGHT = 200;

/** A chart over time. The same values are a table, and a CSV file. */
export function Chart({ title, times, series, format, axisFormat, view, onView, csvName }: ChartProps) {
  const [point, setPoint] = useState<number | null>(null);
  const summary = series
    .map(
      (item) =>
        `${item.label}: ${format(item.values.reduce<number>((most, v) => Math.max(most, v ?? 0), 0))} at most`,
    )
    .join(", ");
  return (
    <section aria-label={title} className="card min-w-0 p-4">
      <div className="flex items-center justify-between gap-2">
        <h3>{title}</h3>
        <button
          type="button"
          className="link text-xs"
          onClick={() => onView(view === "chart" ? "table" : "chart")}
        >
          {view === "chart" ? "Show as a table" : "Show as a chart"}
        </button>
      </div>
      <Legend times={times} series={series} format={format} point={view === "chart" ? point : null} />
      {view === "table" ? (
        <SeriesTable title={title} times={times} series={series} format={format} csvName={csvName} />
      ) : (
        <div role="img" aria-label={`${title}. ${summary}. The same values are in the table.`}>
          <Suspense fallback={<Loading what="the chart" />}>
            <Plot
              times={times}
              series={series}
              format={axisFormat ?? format}
              height={HEIGHT}
              onPoint={setPoint}
            />
          </Suspense>
        </div>
      )}
    </section>
  );
}

const SWATCHES = ["bg-chart-1", "bg-chart-2", "bg-chart-3", "bg-chart-4"];

interface LegendProps extends Pick<ChartProps, "times" | "series" | "format"> {
  /** The moment that the pointer is at. */
  point: number | null;
}

/** The names of the lines, with their values at the pointer. */
function Legend({ times, series, format, point }: LegendProps) {
  const time = point === null ? undefined : times[point];
  return (
    <ul className="my-2 flex min-h-5 flex-wrap gap-x-3 text-xs text-muted tabular-nums">
      {series.map((item, index) => (
        <li key={item.label} className="inline-flex items-center gap-1.5">
          <span aria-hidden="true" className={`h-0.5 w-4 ${SWATCHES[index % SWATCHES.length]}`} />
          {item.label}
          {point === null ? null : <strong className="text-text">{format(item.values[point] ?? 0)}</strong>}
        </li>
      ))}
      {time === undefined ? null : <li>{utc(new Date(time * 1000)).slice(5, 16)}</li>}
    </ul>
  );
}

type SeriesTableProps = Pick<ChartProps, "title" | "times" | "series" | "format" | "csvName">;

interface Line {
  at: string;
  values: (number | null)[];
}

function SeriesTable({ title, times, series, format, csvName }: SeriesTableProps) {
  const lines = useMemo<Line[]>(
    () =>
      times.map((at, index) => ({
        at: new Date(at * 1000).toISOString(),
        values: series.map((item) => item.values[index] ?? null),
      })),
    [times, series],
  );
  const columns = useMemo<Column<Line>[]>(
    () => [
      {
        id: "at",
        header: "Time (UTC)",
        value: (line) => line.at,
        // Seconds are always zero: the steps are hours or days.
        cell: (line) => utc(line.at).slice(0, 16),
      },
      ...series.map((item, index) => ({
        id: item.label,
        header: item.label,
        isNumber: true,
        value: (line: Line) => line.values[index],
        cell: (line: Line) => format(line.values[index] ?? 0),
      })),
    ],
    [series, format],
  );
  return (
    <DataTable label={title} columns={columns} rows={lines} rowKey={(line) => line.at} csvName={csvName} />
  );
}
