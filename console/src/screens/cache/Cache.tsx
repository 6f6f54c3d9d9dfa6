import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, client, type Paths } from "@/api/client";
import { useRight } from "@/api/session";
import { Confirm } from "@/components/Confirm";
import { type Fact, Facts } from "@/components/Facts";
import { TextField } from "@/components/Field";
import { Loaded } from "@/components/Loaded";
import { Empty, Notice } from "@/components/Notice";
import { Screen, Section } from "@/components/Screen";
import { type Column, DataTable } from "@/components/table/DataTable";
import { bytes, count, percent, usd } from "@/format/numbers";
import { duration } from "@/format/time";

type Figures = Paths["/admin/v1/cache"]["get"]["responses"]["200"]["content"]["application/json"];
type Semantic = NonNullable<Figures["semantic"]>[number];

/** What the response cache did since the process started, and how to empty it. */
export function Cache() {
  const figures = api.useQuery("get", "/admin/v1/cache", {}, { refetchInterval: 10_000 });
  const mayPurge = useRight("operate");
  return (
    <Screen
      title="Cache"
      lead="Repeated questions answered at once and for free. The figures count since this process started."
    >
      <Loaded query={figures} what="the figures of the cache">
        {(data) => (
          <>
            <State figures={data} />
            <Section title="Answers">
              <Facts facts={answers(data)} />
            </Section>
            <Section title="Saved">
              <Facts facts={savings(data)} />
            </Section>
            <Section title="Similar questions" lead="Aliases whose questions are compared by their meaning.">
              <SemanticTable rows={data.semantic ?? []} />
            </Section>
          </>
        )}
      </Loaded>
      {mayPurge ? <Purge /> : null}
    </Screen>
  );
}

function State({ figures }: { figures: Figures }) {
  if (!figures.enabled) {
    return (
      <Notice look="warn">
        The cache is switched off. Set <code>enabled = true</code> in <code>[cache]</code>.
      </Notice>
    );
  }
  if (figures.available === false) {
    return <Notice look="bad">The store of the cache does not answer: requests call their upstreams.</Notice>;
  }
  if ((figures.hits ?? 0) + (figures.misses ?? 0) > 0) return null;
  return (
    <Empty title="No request has asked for the cache yet.">
      <p>
        A chat asks for it with <code>{'"cache": {"enabled": true}'}</code>.
      </p>
    </Empty>
  );
}

function answers(figures: Figures): Fact[] {
  return [
    { label: "Hit ratio", value: percent(figures.hit_ratio) },
    { label: "Hits", value: count(figures.hits) },
    { label: "Misses", value: count(figures.misses) },
    { label: "Shared an equal call", value: count(figures.coalesced) },
    { label: "Batches with some hits", value: count(figures.partial) },
    { label: "Stale, because upstreams failed", value: count(figures.stale) },
    { label: "Answers to similar questions", value: count(figures.similar) },
    { label: "Requests without the cache", value: count(figures.bypassed) },
    { label: "Kept answers", value: count(figures.entries) },
    { label: "Size", value: bytes(figures.bytes) },
    { label: "Looks without an answer of the store", value: count(figures.unanswered) },
    { label: "Answers that could not be kept", value: count(figures.unwritten) },
  ];
}

function savings(figures: Figures): Fact[] {
  return [
    { label: "Saved cost", value: usd(figures.saved_usd) },
    { label: "Saved time", value: duration((figures.saved_seconds ?? 0) * 1000) },
    { label: "Kept since the start", value: count(figures.stored) },
  ];
}

const COLUMNS: readonly Column<Semantic>[] = [
  { id: "alias", header: "Alias", value: (row) => row.alias },
  { id: "model", header: "Embedding model", value: (row) => row.embedding_model },
  { id: "mode", header: "Mode", value: (row) => row.mode },
  {
    id: "threshold",
    header: "Threshold",
    value: (row) => row.threshold,
    isNumber: true,
  },
  {
    id: "looks",
    header: "Looks",
    value: (row) => row.looks,
    cell: (row) => count(row.looks),
    isNumber: true,
  },
  {
    id: "matches",
    header: "Matches",
    value: (row) => row.matches,
    cell: (row) => count(row.matches),
    isNumber: true,
  },
  {
    id: "shadow",
    header: "Shadow matches",
    value: (row) => row.shadow_matches,
    cell: (row) => count(row.shadow_matches),
    isNumber: true,
  },
  {
    id: "vectors",
    header: "Vectors",
    value: (row) => row.vectors,
    cell: (row) => `${count(row.vectors)} (${bytes(row.bytes)})`,
    isNumber: true,
  },
];

function SemanticTable({ rows }: { rows: readonly Semantic[] }) {
  return (
    <DataTable
      label="Similar questions"
      columns={COLUMNS}
      rows={rows}
      rowKey={(row) => row.alias ?? ""}
      csvName="cache-similar"
      empty={
        <Empty title="No alias has a semantic cache.">
          <p>An alias gets one in the configuration file.</p>
        </Empty>
      }
    />
  );
}

/** Empties the cache, or a part of it. */
function Purge() {
  const queries = useQueryClient();
  const [model, setModel] = useState("");
  const [key, setKey] = useState("");
  const [done, setDone] = useState("");
  const part = [model && `of the model ${model}`, key && `of the key ${key}`].filter(Boolean).join(" and ");

  async function purge() {
    const query = { ...(model ? { model } : {}), ...(key ? { key } : {}) };
    await client.DELETE("/admin/v1/cache", { params: { query } });
    setDone(part ? `The answers ${part} are removed.` : "All answers are removed.");
    await queries.invalidateQueries({ queryKey: ["get", "/admin/v1/cache"] });
  }

  return (
    <Section
      title="Empty the cache"
      lead="Without a model and a key it removes every answer, at all replicas."
    >
      <div className="card flex flex-wrap items-end gap-3 p-4">
        <TextField
          label="Only this model"
          placeholder="any"
          value={model}
          onChange={(event) => setModel(event.target.value.trim())}
        />
        <TextField
          label="Only this key (id)"
          placeholder="any"
          value={key}
          onChange={(event) => setKey(event.target.value.trim())}
        />
        <Confirm action="Empty the cache" question="Empty the cache?" onConfirm={purge}>
          {part ? `This removes the answers ${part}.` : "This removes every kept answer."} The next equal
          questions call their upstreams again.
        </Confirm>
      </div>
      {done ? (
        <div className="mt-2">
          <Notice look="good">{done}</Notice>
        </div>
      ) : null}
    </Section>
  );
}
