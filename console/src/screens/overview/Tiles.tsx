import type { ReactNode } from "react";
import type { Overview, Percentiles } from "@/api/pending";
import { change, count, percent, ratio, tokensPerSecond, UNKNOWN, usd } from "@/format/numbers";
import { duration } from "@/format/time";

interface TileProps {
  label: string;
  value: ReactNode;
  note?: ReactNode;
  /** How an outside check finds the tile. */
  metric?: string;
}

function Tile({ label, value, note, metric }: TileProps) {
  return (
    <div className="card min-w-0 px-4 py-3" data-metric={metric}>
      <dt className="text-muted">{label}</dt>
      <dd className="text-lg font-semibold break-words tabular-nums">{value}</dd>
      {note ? <dd className="text-xs text-muted">{note}</dd> : null}
    </div>
  );
}

interface SpeedTileProps {
  label: string;
  metric: string;
  values: Percentiles | null;
  show: (value: number) => string;
  /** Which requests were measured. */
  measured: string;
}

/** The median as the figure, the 95th percentile below it. */
function SpeedTile({ label, metric, values, show, measured }: SpeedTileProps) {
  const note = values ? `p95 ${show(values.p95)}${measured}` : "nothing measured in this span";
  return (
    <Tile label={`${label} (p50)`} metric={metric} value={values ? show(values.p50) : UNKNOWN} note={note} />
  );
}

/** A figure beside that of the span before: `+50 %, before: 1,234`. */
function compared(now: number | null, before: number | null, show: (value: number | null) => string): string {
  const part = change(now, before);
  return `${part === null ? "" : `${part}, `}before: ${show(before)}`;
}

/** The figures of the span, and how they changed since the span before. */
export function Tiles({ overview }: { overview: Overview }) {
  const { total, previous, speed } = overview;
  const since = (name: keyof Overview["total"], show: (value: number | null) => string = count) =>
    previous ? compared(total[name], previous.total[name], show) : undefined;
  const measured = speed.is_complete ? "" : `, newest ${count(speed.samples)} requests`;
  return (
    <dl className="grid grid-cols-2 gap-3 md:grid-cols-3 xl:grid-cols-5">
      <Tile metric="spend" label="Spend" value={usd(total.cost_usd)} note={since("cost_usd", usd)} />
      <Tile metric="requests" label="Requests" value={count(total.requests)} note={since("requests")} />
      <Tile
        metric="tokens"
        label="Tokens"
        value={count(total.total_tokens)}
        note={
          since("total_tokens") ??
          `${count(total.prompt_tokens)} prompt, ${count(total.completion_tokens)} completion`
        }
      />
      <Tile
        metric="errors"
        label="Errors"
        value={count(total.failed)}
        note={since("failed") ?? `${percent(ratio(total.failed, total.requests))} of the requests`}
      />
      <Tile
        metric="fallbacks"
        label="Fallbacks"
        value={count(speed.fallbacks)}
        note={measured.replace(", ", "among the ")}
      />
      <SpeedTile
        metric="ttft"
        label="Time to first token"
        values={speed.ttft_ms}
        show={duration}
        measured={measured}
      />
      <SpeedTile
        metric="latency"
        label="Latency"
        values={speed.latency_ms}
        show={duration}
        measured={measured}
      />
      <SpeedTile
        metric="speed"
        label="Output"
        values={speed.tokens_per_second}
        show={tokensPerSecond}
        measured={measured}
      />
      <Tile
        metric="cache-hits"
        label="Cache hits"
        value={count(total.cache_hits)}
        note={since("cache_hits") ?? `${percent(ratio(total.cache_hits, total.requests))} of the requests`}
      />
      <Tile
        metric="savings"
        label="Saved by the cache"
        value={usd(total.saved_usd)}
        note={since("saved_usd", usd)}
      />
    </dl>
  );
}
