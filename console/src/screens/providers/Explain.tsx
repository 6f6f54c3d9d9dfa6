import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { bodyOf, client } from "@/api/client";
import { Button } from "@/components/Button";
import { Select, TextField } from "@/components/Field";
import { Loaded } from "@/components/Loaded";
import { Empty } from "@/components/Notice";
import { Explanation } from "./Explanation";
import type { ProvidersSearch } from "./search";

const route = getRouteApi("/providers");
const STRATEGIES = [
  "default",
  "cheapest",
  "fastest",
  "throughput",
  "best_quality",
  "balanced",
  "availability",
  "least_busy",
  "round_robin",
] as const;

/** Asks where a request would go. No provider is called. */
export function Explain() {
  const search = route.useSearch();
  const { model } = search;
  const explanation = useExplanation(search);
  return (
    <div className="flex flex-col gap-6">
      <ExplainForm key={`${model} ${search.key} ${search.strategy}`} search={search} />
      {model === undefined ? (
        <Empty title="Name a model to see where a request for it would go.">
          <p>
            The decision is the real one, and no provider is called. What clients would see when a provider
            fails shows the drill.
          </p>
        </Empty>
      ) : (
        <Loaded query={explanation} what="the decision">
          {(data) => <Explanation explanation={data} />}
        </Loaded>
      )}
    </div>
  );
}

function useExplanation({ model = "", key, strategy }: ProvidersSearch) {
  const known = STRATEGIES.find((item) => item === strategy);
  return useQuery({
    queryKey: ["post", "/admin/v1/routing/explain", model, key, strategy],
    enabled: model !== "",
    retry: false,
    queryFn: ({ signal }) =>
      bodyOf(
        client.POST("/admin/v1/routing/explain", {
          signal,
          params: { query: key ? { key } : {} },
          body: {
            model,
            messages: [{ role: "user", content: "Hello!" }],
            ...(known ? { routing: { strategy: known } } : {}),
          },
        }),
      ),
  });
}

/** The question. It stands in the address, so that an explanation can be shared. */
function ExplainForm({ search }: { search: ProvidersSearch }) {
  const navigate = route.useNavigate();
  const [model, setModel] = useState(search.model ?? "");
  const [key, setKey] = useState(search.key ?? "");
  const [strategy, setStrategy] = useState(search.strategy ?? "");

  function submit(event: FormEvent) {
    event.preventDefault();
    navigate({
      search: {
        tab: "explain",
        model: model.trim(),
        ...(key.trim() === "" ? {} : { key: key.trim() }),
        ...(strategy === "" ? {} : { strategy }),
      },
    });
  }

  return (
    <form onSubmit={submit} className="card flex flex-wrap items-end gap-3 p-4">
      <TextField
        label="Model"
        required
        value={model}
        placeholder="id, name or alias"
        onChange={(event) => setModel(event.target.value)}
      />
      <Select
        label="Strategy"
        options={[
          { value: "", label: "of the configuration" },
          ...STRATEGIES.map((value) => ({ value, label: value })),
        ]}
        value={strategy}
        onChange={(event) => setStrategy(event.target.value)}
      />
      <TextField
        label="As the key"
        value={key}
        placeholder="any key"
        onChange={(event) => setKey(event.target.value)}
      />
      <Button type="submit" look="primary">
        Explain
      </Button>
    </form>
  );
}
