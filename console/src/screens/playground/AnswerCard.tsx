import { Link } from "@tanstack/react-router";
import { useRight } from "@/api/session";
import { Badge } from "@/components/Badge";
import { Copy } from "@/components/Copy";
import { Problem } from "@/components/Notice";
import { cost, count, tokensPerSecond, UNKNOWN } from "@/format/numbers";
import { duration } from "@/format/time";
import { readable } from "../requests/Payload";
import type { Run } from "./run";
import { speedOf } from "./spread";

const STATES: Record<Run["state"], string> = {
  running: "Answering…",
  done: "Answered.",
  failed: "Failed.",
  stopped: "Stopped.",
};

/** The figures of a run. The cost is the gateway's own. */
export function Figures({ run }: { run: Run }) {
  const { answer } = run;
  const isOver = run.state !== "running";
  const figures = [
    { label: "TTFT", value: duration(run.ttftMs) },
    { label: "Speed", value: isOver ? tokensPerSecond(speedOf(run)) : UNKNOWN },
    { label: "Time", value: duration(run.totalMs) },
    {
      label: "Tokens",
      value:
        answer.promptTokens === null
          ? UNKNOWN
          : `${count(answer.promptTokens)} + ${count(answer.completionTokens)}`,
    },
    { label: "Cost", value: run.state === "done" ? cost(answer.costUsd) : UNKNOWN },
  ];
  return (
    <dl className="flex flex-wrap gap-x-4 gap-y-1 text-xs">
      {figures.map((figure) => (
        <div key={figure.label} className="flex gap-1">
          <dt className="text-muted">{figure.label}</dt>
          <dd className="tabular-nums">{figure.value}</dd>
        </div>
      ))}
    </dl>
  );
}

function RequestLink({ id }: { id: string | null }) {
  const mayRead = useRight("read");
  if (!id) return null;
  if (!mayRead) return <code className="text-xs text-muted">{id}</code>;
  return (
    <Link to="/requests/$requestId" params={{ requestId: id }} className="link text-xs">
      Its request
    </Link>
  );
}

/** What a model said. It is shown as text and never as markup. */
export function AnswerCard({ model, run }: { model: string; run: Run }) {
  const { answer } = run;
  const tools = Object.entries(answer.tools);
  return (
    <article aria-label={`Answer of ${model}`} className="card flex min-w-0 flex-col gap-2 p-3">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <h2 className="min-w-0 break-words text-sm">{model}</h2>
        <span role="status" className="text-xs text-muted">
          {STATES[run.state]}
        </span>
      </div>
      {answer.reasoning ? (
        <details>
          <summary className="text-muted">Reasoning</summary>
          <p className="mt-1 break-words whitespace-pre-wrap text-muted">{answer.reasoning}</p>
        </details>
      ) : null}
      {answer.text ? <p className="break-words whitespace-pre-wrap">{answer.text}</p> : null}
      {tools.map(([place, tool]) => (
        <div key={place}>
          <p>
            Calls the tool <code>{tool.name}</code> with
          </p>
          <pre className="code mt-1">{readable(tool.arguments || "{}")}</pre>
        </div>
      ))}
      <Problem error={run.error} />
      <div className="mt-auto flex flex-col gap-2 border-t border-line pt-2">
        {run.state === "done" && run.totalMs === null ? null : <Figures run={run} />}
        <div className="flex flex-wrap items-center gap-2">
          {answer.cacheHit ? <Badge look="accent">from the cache</Badge> : null}
          {answer.answeredBy && answer.answeredBy !== model ? (
            <span className="text-xs text-muted">answered by {answer.answeredBy}</span>
          ) : null}
          {answer.warnings.map((warning) => (
            <Badge key={warning} look="warn">
              {warning}
            </Badge>
          ))}
          <RequestLink id={run.requestId} />
          {answer.text && run.state !== "running" ? (
            <Copy label="Copy answer" look="quiet" text={answer.text} />
          ) : null}
        </div>
      </div>
    </article>
  );
}
