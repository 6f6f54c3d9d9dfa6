import type { Overview } from "@/api/pending";

export type Point = Overview["series"][number];

export interface FilledSeries {
  /** Unix seconds. */
  times: number[];
  /** Nothing was counted at a moment without a point. */
  points: (Point | undefined)[];
}

const SECONDS = { hour: 3600, day: 86_400 } as const;
/** More steps than this are no chart any more. */
const MOST_STEPS = 2000;

/** The series with every hour or day of the span, because the API leaves out those without requests. */
export function fillSeries(
  overview: Pick<Overview, "series" | "since" | "until" | "interval" | "as_of">,
): FilledSeries {
  const step = SECONDS[overview.interval];
  const at = (moment: string) => Math.floor(Date.parse(moment) / 1000 / step) * step;
  const known = new Map(overview.series.map((point) => [at(point.at), point]));
  const end = Math.min(Date.parse(overview.until), Date.parse(overview.as_of)) / 1000;
  const times: number[] = [];
  for (let time = at(overview.since); time < end && times.length < MOST_STEPS; time += step) times.push(time);
  return { times, points: times.map((time) => known.get(time)) };
}
