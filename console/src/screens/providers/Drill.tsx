import { useMutation } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { bodyOf, client, type Paths } from "@/api/client";
import { useRight } from "@/api/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { TextField } from "@/components/Field";
import { Empty, Notice, Problem } from "@/components/Notice";
import { Section } from "@/components/Screen";
import { type Column, DataTable } from "@/components/table/DataTable";
import { count } from "@/format/numbers";
import { clockWords, FAULTS, outcomeWords } from "./drillWords";

type Answer = Paths["/admin/v1/routing/drill"]["post"]["responses"]["200"]["content"]["application/json"];
type Route = Answer["routes"][number];
type Case = Route["cases"][number] & { route: string };

const route = getRouteApi("/providers");

/** Plays the failure of every provider and shows what clients would see. No provider is called. */
export function Drill() {
  const { model = "" } = route.useSearch();
  const navigate = route.useNavigate();
  const mayOperate = useRight("operate");
  const [name, setName] = useState(model);
  const drill = useMutation({
    mutationFn: (only: string) => bodyOf(client.POST("/admin/v1/routing/drill", { body: { only: [only] } })),
  });

  function submit(event: FormEvent) {
    event.preventDefault();
    const only = name.trim();
    navigate({ search: { tab: "drill", model: only }, replace: true });
    drill.mutate(only);
  }

  if (!mayOperate) {
    return (
      <Empty title="A drill needs the role operator.">
        <p>Ask an operator, or explain a route instead.</p>
      </Empty>
    );
  }
  return (
    <div className="flex flex-col gap-6">
      <form onSubmit={submit} className="card flex flex-wrap items-end gap-3 p-4">
        <TextField
          label="Model"
          required
          value={name}
          placeholder="id, name or alias"
          onChange={(event) => setName(event.target.value)}
        />
        <Button type="submit" look="primary" disabled={drill.isPending}>
          Drill
        </Button>
      </form>
      {drill.isPending ? (
        <Notice>Each provider fails in each way in turn. A route takes some seconds.</Notice>
      ) : null}
      <Problem error={drill.error} />
      {drill.data ? <Report report={drill.data} /> : null}
      {drill.isIdle ? (
        <Empty title="See an outage before it happens.">
          <p>
            A scripted upstream plays every provider and fails in each way in turn. No provider is called, and
            no request is charged.
          </p>
        </Empty>
      ) : null}
    </div>
  );
}

const COLUMNS: readonly Column<Case>[] = [
  { id: "route", header: "Name", value: (row) => row.route },
  { id: "provider", header: "Failing provider", value: (row) => row.provider },
  { id: "fault", header: "Fault", value: (row) => FAULTS[row.fault] },
  { id: "plain", header: "Plain answer", value: (row) => outcomeWords(row.plain) },
  { id: "stream", header: "Stream", value: (row) => outcomeWords(row.stream) },
  {
    id: "survives",
    header: "Result",
    value: (row) => (row.survives ? "survives" : row.other_candidates ? "lost" : "lost: no other provider"),
    cell: (row) => (
      <Badge look={row.survives ? "good" : "bad"}>
        {row.survives ? "survives" : row.other_candidates ? "lost" : "lost: no other provider"}
      </Badge>
    ),
  },
];

function Report({ report }: { report: Answer }) {
  const cases = report.routes.flatMap((drilled) =>
    drilled.cases.map((item) => ({ ...item, route: drilled.route })),
  );
  const lost = report.routes.filter((drilled) => !drilled.survives).map((drilled) => drilled.route);
  return (
    <>
      <Notice look={report.survives ? "good" : "bad"}>
        {report.survives
          ? `All ${count(report.routes.length)} names survive every fault.`
          : `${lost.join(", ")}: clients would see a fault of a provider.`}
      </Notice>
      <Section title="Faults" lead={clockWords(report.clock_factor)}>
        <DataTable
          label="Faults and what clients see"
          columns={COLUMNS}
          rows={cases}
          rowKey={(row) => `${row.route} ${row.provider} ${row.fault}`}
          csvName="drill"
        />
      </Section>
      {report.not_drilled.length > 0 ? (
        <Section title="Not drilled">
          <ul className="card list-disc p-4 pl-8">
            {report.not_drilled.map((item) => (
              <li key={item.route}>
                <strong>{item.route}</strong>: {item.reason}
              </li>
            ))}
          </ul>
        </Section>
      ) : null}
    </>
  );
}
