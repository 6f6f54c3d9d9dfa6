import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { onThemeChange } from "@/app/theme";
import type { ChartSeries } from "./Chart";

interface PlotProps {
  times: readonly number[];
  series: readonly ChartSeries[];
  /** A value on the axis. */
  format: (value: number) => string;
  height: number;
  /** The place in `times` that the pointer is at, or nothing. */
  onPoint: (index: number | null) => void;
}

/** How the axis writes times: the smallest step, its format, and what stands in a second line when the day changes. */
const TIMES: uPlot.Axis["values"] = [
  [86_400, "{DD} {MMM}", null, null, null, null, null, null, 0],
  [60, "{HH}:{mm}", "\n{DD} {MMM}", null, "\n{DD} {MMM}", null, null, null, 0],
];

/** The colour of a custom property as the canvas needs it. */
function colour(host: HTMLElement, property: string): string {
  host.style.color = `var(${property})`;
  const value = getComputedStyle(host).color;
  host.style.color = "";
  return value;
}

function options({ series, format, height, onPoint }: PlotProps, host: HTMLElement): uPlot.Options {
  const axis = {
    stroke: colour(host, "--color-muted"),
    grid: { stroke: colour(host, "--color-line"), width: 1 },
    ticks: { stroke: colour(host, "--color-line"), width: 1 },
    font: `12px ${getComputedStyle(host).fontFamily}`,
  };
  return {
    width: Math.max(host.clientWidth, 200),
    height,
    legend: { show: false },
    hooks: { setCursor: [(plot) => onPoint(plot.cursor.idx ?? null)] },
    cursor: { drag: { x: false, y: false } },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
    scales: { y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    axes: [
      { ...axis, values: TIMES },
      { ...axis, size: 72, values: (_plot, values) => values.map(format) },
    ],
    series: [
      {},
      ...series.map((item, index) => ({
        label: item.label,
        stroke: colour(host, `--color-chart-${(index % 4) + 1}`),
        width: 2,
        fill: series.length === 1 ? colour(host, "--color-tint") : undefined,
        points: { show: false },
      })),
    ],
  };
}

/** The canvas of a chart. It is drawn anew when the size, the data or the colours change. */
export default function Plot({ times, series, format, height, onPoint }: PlotProps) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    let plot: uPlot | undefined;
    const draw = () => {
      plot?.destroy();
      const data: uPlot.AlignedData = [[...times], ...series.map((item) => [...item.values])];
      plot = new uPlot(options({ times, series, format, height, onPoint }, element), data, element);
    };
    draw();
    const resize = new ResizeObserver(() => {
      plot?.setSize({ width: Math.max(element.clientWidth, 200), height });
    });
    resize.observe(element);
    const stop = onThemeChange(draw);
    return () => {
      stop();
      resize.disconnect();
      plot?.destroy();
    };
  }, [times, series, format, height, onPoint]);
  return <div ref={host} className="w-full overflow-hidden" style={{ height }} />;
}
