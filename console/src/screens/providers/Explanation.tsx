import type { Paths } from "@/api/client";
import { Badge } from "@/components/Badge";
import { Facts } from "@/components/Facts";
import { Section } from "@/components/Screen";
import { type Column, DataTable } from "@/components/table/DataTable";
import { cost, count, decimal, tokens, UNKNOWN } from "@/format/numbers";
import { standingWords, type Target } from "./standing";

type Answer = Paths["/admin/v1/routing/explain"]["post"]["responses"]["200"]["content"]["application/json"];
type Candidate = Answer["candidates"][number] & { place: number };

const STANDINGS: readonly Target["standing"][] = [
  "able",
  "ramping",
  "resting",
  "open",
  "probing",
  "ready_for_probe",
];

function Standing({ standing }: { standing: string | null | undefined }) {
  const known = STANDINGS.find((item) => item === standing);
  if (!known) return standing ?? "not measured";
  const words = standingWords(known);
  return <Badge look={words.look}>{words.text}</Badge>;
}

/** The parts of a score in words: `position 0, ttft_ms 129.1`. */
function parts(candidate: Candidate): string {
  const entries: [string, unknown][] = Object.entries(candidate.parts ?? {});
  return entries
    .map(([name, value]) => `${name} ${typeof value === "number" ? decimal(value) : String(value)}`)
    .join(", ");
}

const COLUMNS: readonly Column<Candidate>[] = [
  { id: "place", header: "Asked", value: (row) => row.place, cell: (row) => `${row.place}.`, isNumber: true },
  { id: "model", header: "Model", value: (row) => row.model },
  { id: "provider", header: "Provider", value: (row) => row.provider },
  { id: "named", header: "Named as", value: (row) => row.named_as },
  {
    id: "standing",
    header: "Circuit",
    value: (row) => row.standing,
    cell: (row) => <Standing standing={row.standing} />,
  },
  {
    id: "score",
    header: "Score (less is better)",
    value: (row) => row.score,
    cell: (row) => (row.score === null ? UNKNOWN : decimal(row.score)),
    isNumber: true,
  },
  { id: "parts", header: "Made of", value: parts },
  {
    id: "cost",
    header: "Expected cost",
    value: (row) => row.expected_cost_usd,
    cell: (row) => cost(row.expected_cost_usd),
    isNumber: true,
  },
  {
    id: "cache",
    header: "Holds the prompt's cache",
    value: (row) => row.holds_prompt_cache,
    cell: (row) => (row.holds_prompt_cache ? "yes" : "no"),
  },
];

/** The candidates in their order, those left out, and the worst case. */
export function Explanation({ explanation }: { explanation: Answer }) {
  const candidates = explanation.candidates.map((candidate, index) => ({ ...candidate, place: index + 1 }));
  const { worst_case: worst } = explanation;
  return (
    <>
      <Section
        title="In this order"
        lead={`A request for ${explanation.requested_model} with the strategy ${explanation.strategy}, at most ${count(explanation.max_attempts)} calls.`}
      >
        <DataTable
          label="Candidates"
          columns={COLUMNS}
          rows={candidates}
          rowKey={(row) => String(row.place)}
          csvName="candidates"
        />
      </Section>
      <Section title="Left out">
        <Excluded excluded={explanation.excluded} />
      </Section>
      <Section title="In the worst case">
        <Facts
          facts={[
            { label: "Longest answer", value: tokens(worst.answer_tokens) },
            { label: "Tokens in all", value: tokens(worst.tokens) },
            { label: "Cost that a budget sets aside", value: cost(worst.cost_usd) },
          ]}
        />
      </Section>
    </>
  );
}

function Excluded({ excluded }: { excluded: Answer["excluded"] }) {
  if (excluded.length === 0) return <p className="text-muted">No candidate is left out.</p>;
  return (
    <ul className="card list-disc p-4 pl-8">
      {excluded.map((item) => (
        <li key={item.model}>
          <strong>{item.model}</strong>: {item.reason}
        </li>
      ))}
    </ul>
  );
}
