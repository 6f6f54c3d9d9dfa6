import { Link } from "@tanstack/react-router";
import { Badge } from "@/components/Badge";
import { Checkbox } from "@/components/Field";
import type { Column } from "@/components/table/DataTable";
import { count, UNKNOWN, usd } from "@/format/numbers";
import { duration } from "@/format/time";
import { type Model, words } from "./catalogue";

export interface Choice {
  ids: readonly string[];
  isFull: boolean;
  onToggle: (id: string) => void;
}

/** `99.9 %` of a figure that is a percentage already. */
export function percentage(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : `${Math.round(value * 100) / 100} %`;
}

/** The columns of the catalogue. */
export function columnsFor(choice: Choice): Column<Model>[] {
  return [
    {
      id: "choice",
      header: "Chosen",
      value: (model) => choice.ids.includes(model.id),
      cell: (model) => <Choose model={model} choice={choice} />,
    },
    {
      id: "id",
      header: "Model",
      value: (model) => model.id,
      cell: (model) => (
        <Link to="/models/$modelId" params={{ modelId: model.id }} className="link" title={model.name ?? ""}>
          {model.id}
        </Link>
      ),
    },
    {
      id: "kind",
      header: "Kind",
      value: (model) => (model.targets ? "alias" : (model.category ?? []).join(" ")),
      cell: (model) =>
        model.targets ? (
          <Badge look="accent">alias</Badge>
        ) : (
          (model.category ?? []).map(words).join(", ") || UNKNOWN
        ),
    },
    {
      id: "context",
      header: "Context (tokens)",
      value: (model) => model.context_length,
      cell: (model) => count(model.context_length),
      isNumber: true,
    },
    {
      id: "input",
      header: "Input / M tokens",
      value: (model) => model.pricing?.gateway_input_per_m,
      cell: (model) => usd(model.pricing?.gateway_input_per_m),
      isNumber: true,
    },
    {
      id: "output",
      header: "Output / M tokens",
      value: (model) => model.pricing?.gateway_output_per_m,
      cell: (model) => usd(model.pricing?.gateway_output_per_m),
      isNumber: true,
    },
    {
      id: "latency",
      header: "Latency p50",
      value: (model) => model.performance?.latency_p50_ms,
      cell: (model) => duration(model.performance?.latency_p50_ms),
      isNumber: true,
    },
    {
      id: "availability",
      header: "Availability",
      value: (model) => model.performance?.availability,
      cell: (model) => percentage(model.performance?.availability),
      isNumber: true,
    },
    {
      id: "quality",
      header: "Quality",
      value: (model) => model.quality_scores?.overall,
      cell: (model) => model.quality_scores?.overall ?? UNKNOWN,
      isNumber: true,
    },
    {
      id: "features",
      header: "Features",
      value: (model) => (model.features ?? []).join(" "),
      cell: (model) => (
        <span title={(model.features ?? []).map(words).join(", ")}>
          {(model.features ?? []).map(words).join(", ") || UNKNOWN}
        </span>
      ),
    },
  ];
}

function Choose({ model, choice }: { model: Model; choice: Choice }) {
  const isChosen = choice.ids.includes(model.id);
  return (
    <Checkbox
      label={<span className="sr-only">{model.id}</span>}
      checked={isChosen}
      disabled={!isChosen && choice.isFull}
      onChange={() => choice.onToggle(model.id)}
    />
  );
}
