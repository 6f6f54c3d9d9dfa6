import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { Button } from "@/components/Button";
import { Select, TextField } from "@/components/Field";
import { Loaded } from "@/components/Loaded";
import { Empty } from "@/components/Notice";
import { Screen } from "@/components/Screen";
import { DataTable } from "@/components/table/DataTable";
import { count } from "@/format/numbers";
import { categoriesOf, featuresOf, type Model, matching, providersOf, useModels, words } from "./catalogue";
import { columnsFor } from "./columns";
import { FEWEST, idsOf, MOST, type ModelsSearch } from "./search";

const route = getRouteApi("/models");

/** The catalogue of the models that the key may use. */
export function Models() {
  const models = useModels();
  return (
    <Screen
      title="Models"
      lead="Every model and alias that your key may use, with the prices that this gateway charges. Latency and availability are what it measured, or what the provider publishes."
    >
      <Loaded query={models} what="the models">
        {(all) => <Catalogue all={all} />}
      </Loaded>
    </Screen>
  );
}

function Catalogue({ all }: { all: readonly Model[] }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: Partial<ModelsSearch>) =>
    navigate({ search: (now) => ({ ...now, ...next }), replace: true, resetScroll: false });
  const chosen = search.compare ?? "";
  const rows = useMemo(
    () =>
      matching(all, {
        search: search.search,
        provider: search.provider,
        category: search.category,
        feature: search.feature,
      }),
    [all, search.search, search.provider, search.category, search.feature],
  );
  // biome-ignore lint/correctness/useExhaustiveDependencies: `change` is new at every rendering
  const columns = useMemo(() => {
    const ids = idsOf(chosen);
    const onToggle = (id: string) => {
      const next = ids.includes(id) ? ids.filter((other) => other !== id) : [...ids, id];
      change({ compare: next.join(",") || undefined });
    };
    return columnsFor({ ids, isFull: ids.length >= MOST, onToggle });
  }, [chosen]);
  return (
    <>
      <Filters all={all} search={search} onChange={change} />
      <Comparison ids={idsOf(chosen)} />
      <DataTable
        label="Models"
        columns={columns}
        rows={rows}
        rowKey={(model) => model.id}
        sort={search.sort}
        onSort={(sort) => change({ sort })}
        csvName="models"
        tools={
          <span className="text-muted">
            {count(rows.length)} of {count(all.length)} models
          </span>
        }
        empty={<NoModels hasModels={all.length > 0} />}
      />
    </>
  );
}

interface FiltersProps {
  all: readonly Model[];
  search: ModelsSearch;
  onChange: (next: Partial<ModelsSearch>) => void;
}

function options(names: readonly string[]) {
  return [{ value: "", label: "Any" }, ...names.map((value) => ({ value, label: words(value) }))];
}

function Filters({ all, search, onChange }: FiltersProps) {
  const choices = useMemo(
    () => [
      { name: "provider", label: "Provider", options: options(providersOf(all)) } as const,
      { name: "category", label: "Category", options: options(categoriesOf(all)) } as const,
      { name: "feature", label: "Feature", options: options(featuresOf(all)) } as const,
    ],
    [all],
  );
  const isFiltered = Boolean(search.search || search.provider || search.category || search.feature);
  return (
    <div className="card flex flex-wrap items-end gap-3 p-4">
      <div className="min-w-52 flex-1">
        <TextField
          label="Search"
          type="search"
          placeholder="Part of an id, a name or a description"
          value={search.search ?? ""}
          onChange={(event) => onChange({ search: event.target.value || undefined })}
        />
      </div>
      {choices.map((choice) => (
        <Select
          key={choice.name}
          label={choice.label}
          options={choice.options}
          value={search[choice.name] ?? ""}
          onChange={(event) => onChange({ [choice.name]: event.target.value || undefined })}
        />
      ))}
      {isFiltered ? (
        <Link to="/models" search={{ sort: search.sort, compare: search.compare }} className="link pb-2">
          Remove all filters
        </Link>
      ) : null}
    </div>
  );
}

function Comparison({ ids }: { ids: readonly string[] }) {
  const navigate = route.useNavigate();
  return (
    <div className="flex flex-wrap items-center gap-3">
      <Button
        look="primary"
        disabled={ids.length < FEWEST}
        onClick={() => navigate({ to: "/models/compare", search: { models: ids.join(",") } })}
      >
        Compare
      </Button>
      <span className="text-muted" role="status">
        {ids.length === 0 ? `Choose ${FEWEST} to ${MOST} models to compare them.` : ids.join(", ")}
        {ids.length === 1 ? " Choose another one." : ""}
      </span>
    </div>
  );
}

function NoModels({ hasModels }: { hasModels: boolean }) {
  if (hasModels) return <Empty title="No model matches these filters." />;
  return (
    <Empty title="No models.">
      <p>The gateway has no provider, or your key may use none of its models.</p>
      <Link to="/providers" className="link">
        See the providers
      </Link>
    </Empty>
  );
}
