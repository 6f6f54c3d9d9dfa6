import { useMutation } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { api, bodyOf, client, type Paths } from "@/api/client";
import { useRight } from "@/api/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Facts } from "@/components/Facts";
import { Select, TextField } from "@/components/Field";
import { Loaded } from "@/components/Loaded";
import { Empty, Notice, Problem } from "@/components/Notice";
import { Section } from "@/components/Screen";
import { type Column, DataTable } from "@/components/table/DataTable";
import { cost, count, tokens } from "@/format/numbers";

type Answer =
  Paths["/admin/v1/providers/{name}/probe"]["post"]["responses"]["200"]["content"]["application/json"];
type Check = NonNullable<Answer["checks"]>[number];

interface Target {
  provider: string;
  model: string;
}

const route = getRouteApi("/providers");

function ask({ provider, model }: Target, isDryRun: boolean): Promise<Answer> {
  return bodyOf(
    client.POST("/admin/v1/providers/{name}/probe", {
      params: { path: { name: provider } },
      body: { dry_run: isDryRun, ...(model === "" ? {} : { model }) },
    }),
  );
}

/** Tests which promises of its API a provider keeps. The plan and its price come first. */
export function Probe() {
  const mayOperate = useRight("operate");
  const providers = api.useQuery("get", "/admin/v1/providers", {});
  if (!mayOperate) {
    return (
      <Empty title="A probe needs the role operator.">
        <p>Its calls cost money at the provider.</p>
      </Empty>
    );
  }
  return (
    <Loaded query={providers} what="the providers">
      {(list) => <ProbeOf names={list.data.map((provider) => provider.name)} />}
    </Loaded>
  );
}

function ProbeOf({ names }: { names: readonly string[] }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const [target, setTarget] = useState<Target>({
    provider: names.find((name) => name === search.provider) ?? names[0] ?? "",
    model: search.model ?? "",
  });
  const plan = useMutation({ mutationFn: (asked: Target) => ask(asked, true) });
  const probe = useMutation({ mutationFn: (asked: Target) => ask(asked, false) });

  function submit(event: FormEvent) {
    event.preventDefault();
    const model = target.model.trim();
    navigate({
      search: { tab: "probe", provider: target.provider, ...(model === "" ? {} : { model }) },
      replace: true,
    });
    probe.reset();
    plan.mutate({ ...target, model });
  }

  return (
    <div className="flex flex-col gap-6">
      <form onSubmit={submit} className="card flex flex-wrap items-end gap-3 p-4">
        <Select
          label="Provider"
          options={names.map((name) => ({ value: name, label: name }))}
          value={target.provider}
          onChange={(event) => setTarget({ ...target, provider: event.target.value })}
        />
        <TextField
          label="Model"
          value={target.model}
          placeholder="the cheapest chat model"
          onChange={(event) => setTarget({ ...target, model: event.target.value })}
        />
        <Button type="submit" look="primary" disabled={plan.isPending}>
          Show the plan
        </Button>
      </form>
      <Problem error={plan.error} />
      {plan.data && plan.variables ? (
        <Plan plan={plan.data} onConfirm={() => probe.mutateAsync(plan.variables)} />
      ) : null}
      {probe.isPending ? <Notice>The calls are being made.</Notice> : null}
      {probe.data ? <Report report={probe.data} /> : null}
    </div>
  );
}

function Plan({ plan, onConfirm }: { plan: Answer; onConfirm: () => Promise<unknown> }) {
  return (
    <Section title={`The plan for ${plan.model}`} lead="These are the most that the probe can need.">
      <Facts
        facts={[
          { label: "Calls", value: count(plan.calls) },
          { label: "Prompt tokens", value: tokens(plan.prompt_tokens) },
          { label: "Answer tokens", value: tokens(plan.completion_tokens) },
          { label: "Cost", value: cost(plan.cost_usd) },
        ]}
      />
      <Confirm action="Probe" question={`Probe ${plan.model}?`} look="primary" onConfirm={onConfirm}>
        At most {count(plan.calls)} calls go to the provider, and the provider bills them. No key's budget
        pays for them.
      </Confirm>
    </Section>
  );
}

const LOOKS = { passed: "good", failed: "bad", not_offered: "plain", skipped: "plain" } as const;
const WORDS = { passed: "passed", failed: "failed", not_offered: "not offered", skipped: "skipped" } as const;

/** What the check measured, or why it failed or was not made. */
function details(check: Check): string {
  if (check.result === "failed") return `expected ${check.expected ?? ""}; seen ${check.seen ?? ""}`;
  return check.measured ?? check.reason ?? "";
}

const COLUMNS: readonly Column<Check>[] = [
  { id: "check", header: "Check", value: (row) => row.check },
  {
    id: "result",
    header: "Result",
    value: (row) => WORDS[row.result],
    cell: (row) => <Badge look={LOOKS[row.result]}>{WORDS[row.result]}</Badge>,
  },
  { id: "details", header: "Details", value: details },
];

function Report({ report }: { report: Answer }) {
  return (
    <Section
      title={report.conforms ? "It keeps every promise" : "It breaks promises"}
      lead={`${count(report.passed)} passed, ${count(report.failed)} failed, ${count(report.not_offered)} not offered, ${count(report.skipped)} skipped; ${count(report.calls)} calls, ${cost(report.cost_usd)}.`}
    >
      <DataTable
        label="Checks"
        columns={COLUMNS}
        rows={report.checks ?? []}
        rowKey={(row) => row.check}
        csvName="probe"
      />
    </Section>
  );
}
