import type { RequestDetail } from "@/api/pending";
import { Status } from "@/components/Badge";
import { Empty } from "@/components/Notice";
import { cost } from "@/format/numbers";
import { duration } from "@/format/time";
import { type Bar, waterfall } from "./waterfall";

/** The upstream calls of a request on one line of time. */
export function Attempts({ request }: { request: RequestDetail }) {
  const attempts = request.attempts ?? [];
  if (attempts.length === 0) {
    return (
      <Empty
        title={request.cache_hit ? "No call: the cache answered." : "No call: the request ended before one."}
      />
    );
  }
  const bars = waterfall(attempts, request.latency_ms);
  const rows = attempts.map((attempt, index) => ({ attempt, bar: bars[index], number: index + 1 }));
  return (
    <ol className="card divide-y divide-line">
      {rows.map(({ attempt, bar, number }) => (
        <AttemptRow key={number} attempt={attempt} bar={bar} />
      ))}
    </ol>
  );
}

interface AttemptRowProps {
  attempt: NonNullable<RequestDetail["attempts"]>[number];
  bar: Bar | undefined;
}

function AttemptRow({ attempt, bar }: AttemptRowProps) {
  const startedMs = bar?.startedMs ?? null;
  const text = attempt.reason;
  return (
    <li className="grid gap-x-4 gap-y-1 px-4 py-3 md:grid-cols-[16rem_1fr_10rem] md:items-center">
      <div className="min-w-0">
        <p className="truncate font-medium">{attempt.model}</p>
        <p className="text-muted">
          {attempt.provider} <Status status={attempt.status} />
        </p>
      </div>
      <div>
        <div aria-hidden="true" className="relative h-4 rounded bg-raised">
          <div
            className={`absolute inset-y-0 rounded ${attempt.status === "ok" ? "bg-action" : "bg-bad"}`}
            style={{ left: `${bar?.left ?? 0}%`, width: `${bar?.width ?? 0}%` }}
          />
        </div>
        {text ? <p className="mt-1 break-words text-muted">{text}</p> : null}
      </div>
      <div className="tabular-nums md:text-right">
        <p>{duration(attempt.latency_ms)}</p>
        <p className="text-muted">
          {startedMs === null ? "" : `after ${duration(startedMs)}, `}
          {cost(attempt.cost_usd)}
        </p>
      </div>
    </li>
  );
}
