import { getRouteApi, Link } from "@tanstack/react-router";
import { useSignedIn } from "@/api/session";
import { Badge } from "@/components/Badge";
import { buttonClass } from "@/components/Button";
import { type Fact, Facts } from "@/components/Facts";
import { Loaded } from "@/components/Loaded";
import { Screen, Section } from "@/components/Screen";
import { count, percent, perMillion, ratio, tokens, tokensPerSecond, UNKNOWN, usd } from "@/format/numbers";
import { duration } from "@/format/time";
import { canChat, type Model, useModel, words } from "./catalogue";
import { percentage } from "./columns";
import { MEASURED_DAYS, type Measured, useMeasured } from "./measured";

const route = getRouteApi("/models/$modelId");

/** One model: what is known of it, what it costs and how it behaved here. */
export function ModelPage() {
  const { modelId } = route.useParams();
  const { rights } = useSignedIn();
  const model = useModel(modelId);
  const measured = useMeasured();
  return (
    <Screen
      title={modelId}
      lead={
        <Link to="/models" className="link">
          All models
        </Link>
      }
      actions={
        <>
          {rights.generate && model.data && canChat(model.data) ? (
            <Link to="/playground" search={{ models: modelId }} className={buttonClass("primary")}>
              Try in the playground
            </Link>
          ) : null}
          <Link to="/clients" search={{ model: modelId }} className={buttonClass()}>
            Set up a client
          </Link>
          {rights.read ? (
            <Link to="/requests" search={{ model: modelId }} className={buttonClass()}>
              Its requests
            </Link>
          ) : null}
        </>
      }
    >
      <Loaded query={model} what="the model">
        {(data) => (
          <>
            {data.description ? <p className="max-w-3xl">{data.description}</p> : null}
            <Targets model={data} />
            <Facts facts={factsOf(data)} />
            <Section title="Features">
              <Features model={data} />
            </Section>
            <Section title="Price" lead="What this gateway charges, in US dollars.">
              <Facts facts={pricesOf(data)} />
            </Section>
            {measured.mayRead ? (
              <Section
                title="Measured by this gateway"
                lead="Latency, speed and availability are of its recent calls."
              >
                <Facts facts={measuredFacts(measured.of(data.id))} />
              </Section>
            ) : null}
            <Section title="Quality" lead="Published scores, 0 to 100.">
              <Facts facts={scoresOf(data)} />
            </Section>
          </>
        )}
      </Loaded>
    </Screen>
  );
}

function Targets({ model }: { model: Model }) {
  if (!model.targets) return null;
  return (
    <Section
      title="Stands for"
      lead="Requests of this alias go to these models. The figures below are those of the first one."
    >
      <ol className="card list-decimal p-4 pl-8">
        {model.targets.map((target) => (
          <li key={target}>
            <Link to="/models/$modelId" params={{ modelId: target }} className="link">
              {target}
            </Link>
          </li>
        ))}
      </ol>
    </Section>
  );
}

function list(names: readonly string[] | undefined): string {
  return (names ?? []).map(words).join(", ") || UNKNOWN;
}

function factsOf(model: Model): Fact[] {
  return [
    { label: "Name", value: model.name ?? UNKNOWN },
    { label: "Provider", value: model.provider },
    { label: "Category", value: list(model.category) },
    { label: "Context", value: tokens(model.context_length) },
    { label: "Longest answer", value: tokens(model.max_output_tokens) },
    { label: "Input", value: list(model.modalities?.input) },
    { label: "Output", value: list(model.modalities?.output) },
    { label: "Licence", value: model.license ?? UNKNOWN },
    { label: "Published latency p50", value: duration(model.performance?.latency_p50_ms) },
    { label: "Published latency p99", value: duration(model.performance?.latency_p99_ms) },
    { label: "Published availability", value: percentage(model.performance?.availability) },
    ...(model.embedding_dimensions
      ? [{ label: "Dimensions", value: model.embedding_dimensions.map(count).join(", ") }]
      : []),
  ];
}

function Features({ model }: { model: Model }) {
  const features = model.features ?? [];
  if (features.length === 0) return <p className="text-muted">None are known.</p>;
  return (
    <ul className="flex flex-wrap gap-1.5">
      {features.map((feature) => (
        <li key={feature}>
          <Badge>{words(feature)}</Badge>
        </li>
      ))}
    </ul>
  );
}

function pricesOf({ pricing }: Model): Fact[] {
  return [
    { label: "Input", value: perMillion(pricing?.gateway_input_per_m) },
    { label: "Output", value: perMillion(pricing?.gateway_output_per_m) },
    { label: "Input from the provider's cache", value: perMillion(pricing?.cached_input_per_m) },
    { label: "Provider's own input price", value: perMillion(pricing?.official_input_per_m) },
    { label: "Provider's own output price", value: perMillion(pricing?.official_output_per_m) },
  ];
}

function measuredFacts(measured: Measured): Fact[] {
  return [
    { label: "Latency p50", value: duration(measured.latencyP50Ms) },
    { label: "Latency p99", value: duration(measured.latencyP99Ms) },
    { label: "Time to first token", value: duration(measured.firstTokenMs) },
    { label: "Speed", value: tokensPerSecond(measured.tokensPerSecond) },
    { label: "Availability", value: percentage(measured.availability) },
    { label: "Recent calls", value: count(measured.samples) },
    { label: `Requests in ${MEASURED_DAYS} days`, value: count(measured.requests) },
    { label: `Failed in ${MEASURED_DAYS} days`, value: percent(ratio(measured.failed, measured.requests)) },
    { label: `Cost in ${MEASURED_DAYS} days`, value: usd(measured.costUsd) },
    {
      label: "Real cost",
      value: measured.usdPerMillion === null ? UNKNOWN : perMillion(measured.usdPerMillion),
    },
  ];
}

function scoresOf({ quality_scores: scores }: Model): Fact[] {
  const score = (value: number | null | undefined) => value ?? UNKNOWN;
  return [
    { label: "Overall", value: score(scores?.overall) },
    { label: "Code", value: score(scores?.code) },
    { label: "Mathematics", value: score(scores?.math) },
    { label: "Reasoning", value: score(scores?.reasoning) },
  ];
}
