import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { api } from "@/api/client";
import { Badge } from "@/components/Badge";
import { Loaded } from "@/components/Loaded";
import { Empty } from "@/components/Notice";
import { Section } from "@/components/Screen";
import { type Column, DataTable } from "@/components/table/DataTable";
import { count, percent, tokensPerSecond } from "@/format/numbers";
import { duration } from "@/format/time";
import { keyWords, type Provider, standingWords, type Target } from "./standing";

const route = getRouteApi("/providers");

interface Row extends Target {
  provider: string;
}

const milliseconds = (
  id: keyof Target & string,
  header: string,
  value: (row: Row) => number | null | undefined,
): Column<Row> => ({
  id,
  header,
  value,
  cell: (row) => duration(value(row)),
  isNumber: true,
});

const COLUMNS: readonly Column<Row>[] = [
  {
    id: "model",
    header: "Model",
    value: (row) => row.model,
    cell: (row) => (
      <Link to="/requests" search={{ model: row.model }} className="link">
        {row.model}
      </Link>
    ),
  },
  { id: "provider", header: "Provider", value: (row) => row.provider },
  {
    id: "standing",
    header: "Circuit",
    value: (row) => row.standing,
    cell: (row) => <Standing row={row} />,
  },
  {
    id: "availability",
    header: "Available",
    value: (row) => row.availability,
    cell: (row) =>
      percent(row.availability === null || row.availability === undefined ? null : row.availability / 100),
    isNumber: true,
  },
  {
    id: "errors",
    header: "Error rate",
    value: (row) => row.error_rate,
    cell: (row) => percent(row.error_rate),
    isNumber: true,
  },
  milliseconds("first_token_ms", "First token", (row) => row.first_token_ms),
  milliseconds("latency_p50_ms", "Latency p50", (row) => row.latency_p50_ms),
  milliseconds("latency_p99_ms", "Latency p99", (row) => row.latency_p99_ms),
  {
    id: "speed",
    header: "Output",
    value: (row) => row.tokens_per_second,
    cell: (row) => tokensPerSecond(row.tokens_per_second),
    isNumber: true,
  },
  {
    id: "in_flight",
    header: "In flight",
    value: (row) => row.in_flight,
    cell: (row) => count(row.in_flight),
    isNumber: true,
  },
  {
    id: "samples",
    header: "Calls measured",
    value: (row) => row.samples,
    cell: (row) => count(row.samples),
    isNumber: true,
  },
];

function Standing({ row }: { row: Row }) {
  const words = standingWords(row.standing);
  const again = row.asked_again_in_seconds;
  return (
    <Badge look={words.look}>
      {words.text}
      {again === null || again === undefined ? "" : `, asked again in ${Math.ceil(again)} s`}
    </Badge>
  );
}

/** The providers with their keys, and their models with what was measured. */
export function Health() {
  const providers = api.useQuery("get", "/admin/v1/providers", {}, { refetchInterval: 10_000 });
  return (
    <Loaded query={providers} what="the providers">
      {(list) => (
        <div className="flex flex-col gap-6">
          <ul className="grid gap-3 sm:grid-cols-2 xl:grid-cols-3">
            {list.data.map((provider) => (
              <ProviderCard key={provider.name} provider={provider} />
            ))}
          </ul>
          <Targets providers={list.data} />
        </div>
      )}
    </Loaded>
  );
}

function ProviderCard({ provider }: { provider: Provider }) {
  return (
    <li className="card flex flex-col gap-2 px-4 py-3">
      <div className="flex items-baseline justify-between gap-2">
        <Link to="/requests" search={{ provider: provider.name }} className="link font-medium">
          {provider.name}
        </Link>
        <span className="text-muted">
          API {provider.api}, {count(provider.models)} models
        </span>
      </div>
      <p className="flex flex-wrap gap-1.5">
        {provider.keys.length === 0 ? <span className="text-muted">needs no key</span> : null}
        {provider.keys.map((key) => (
          <Badge key={key.key} look={keyWords(key).look}>
            {keyWords(key).text}
          </Badge>
        ))}
      </p>
    </li>
  );
}

function Targets({ providers }: { providers: readonly Provider[] }) {
  const { sort } = route.useSearch();
  const navigate = route.useNavigate();
  const rows = useMemo(
    () =>
      providers.flatMap((provider) =>
        (provider.targets ?? []).map((target): Row => ({ ...target, provider: provider.name })),
      ),
    [providers],
  );
  return (
    <Section title="Models with recent calls">
      <DataTable
        label="Measured models"
        columns={COLUMNS}
        rows={rows}
        rowKey={(row) => row.model}
        sort={sort}
        onSort={(next) =>
          navigate({ search: (now) => ({ ...now, sort: next }), replace: true, resetScroll: false })
        }
        csvName="providers"
        empty={
          <Empty title="No calls were measured yet.">
            <p>The figures begin with the first request to a model, and with the probes of docs/probe.md.</p>
          </Empty>
        }
      />
    </Section>
  );
}
