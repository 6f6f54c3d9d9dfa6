import { useState } from "react";
import { Button } from "@/components/Button";
import { cost, count, tokensPerSecond } from "@/format/numbers";
import { duration } from "@/format/time";
import { AnswerCard } from "./AnswerCard";
import type { Run } from "./run";
import { differentAnswers, type Spread, speedOf, spreadOf } from "./spread";
import type { Turn } from "./stored";

const GRIDS = ["", "", "md:grid-cols-2", "md:grid-cols-2 xl:grid-cols-3", "md:grid-cols-2 2xl:grid-cols-4"];

/** A message and what each model answered. */
export function TurnView({ turn }: { turn: Turn }) {
  const columns = turn.models.map((model, index) => ({ model, index, runs: turn.runs[index] ?? [] }));
  return (
    <li className="flex flex-col gap-3">
      <div className="max-w-3xl self-end rounded-lg bg-tint px-3 py-2">
        <span className="sr-only">You: </span>
        <p className="break-words whitespace-pre-wrap">{turn.text}</p>
        {turn.images.length > 0 ? (
          <div className="mt-2 flex flex-wrap gap-2">
            {turn.images.map((url) => (
              <img key={url} src={url} alt="Sent with the message" className="max-h-32 rounded" />
            ))}
          </div>
        ) : null}
      </div>
      <div className={`grid gap-3 ${GRIDS[columns.length] ?? ""}`}>
        {columns.map(({ model, index, runs }) => (
          <Answers key={`${index}-${model}`} model={model} runs={runs} />
        ))}
      </div>
    </li>
  );
}

/** One answer, or several with their spread. */
function Answers({ model, runs }: { model: string; runs: readonly Run[] }) {
  const [shown, setShown] = useState(0);
  const run = runs[shown] ?? runs[0];
  if (!run) return null;
  if (runs.length === 1) return <AnswerCard model={model} run={run} />;
  return (
    <div className="flex min-w-0 flex-col gap-2">
      <SpreadTable model={model} runs={runs} />
      <div className="flex flex-wrap items-center gap-1">
        {runs.map((other, index) => (
          <Button
            // biome-ignore lint/suspicious/noArrayIndexKey: runs have no other name than their place
            key={index}
            look={index === shown ? "primary" : "plain"}
            aria-pressed={index === shown}
            aria-label={`Answer ${index + 1} of ${model}${other.state === "failed" ? ", failed" : ""}`}
            onClick={() => setShown(index)}
          >
            {index + 1}
          </Button>
        ))}
      </div>
      <AnswerCard model={model} run={run} />
    </div>
  );
}

function SpreadTable({ model, runs }: { model: string; runs: readonly Run[] }) {
  const over = runs.filter((run) => run.state === "done");
  const lines: { label: string; spread: Spread | null; format: (value: number) => string }[] = [
    { label: "TTFT", spread: spreadOf(over.map((run) => run.ttftMs)), format: duration },
    { label: "Time", spread: spreadOf(over.map((run) => run.totalMs)), format: duration },
    { label: "Speed", spread: spreadOf(over.map(speedOf)), format: tokensPerSecond },
    { label: "Cost", spread: spreadOf(over.map((run) => run.answer.costUsd)), format: cost },
  ];
  return (
    <div className="card overflow-x-auto p-3">
      <table className="w-full text-left text-xs" aria-label={`Spread of ${model}`}>
        <caption className="mb-1 text-left text-sm font-medium">
          {over.length} of {runs.length} answered, {count(differentAnswers(runs))} different{" "}
          {differentAnswers(runs) === 1 ? "answer" : "answers"}
        </caption>
        <thead>
          <tr className="text-muted">
            <td />
            <th scope="col">Min</th>
            <th scope="col">Median</th>
            <th scope="col">Max</th>
          </tr>
        </thead>
        <tbody className="tabular-nums">
          {lines.map(({ label, spread, format }) => (
            <tr key={label}>
              <th scope="row" className="font-normal text-muted">
                {label}
              </th>
              <td>{spread ? format(spread.min) : "–"}</td>
              <td>{spread ? format(spread.median) : "–"}</td>
              <td>{spread ? format(spread.max) : "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
