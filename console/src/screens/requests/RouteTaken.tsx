import { Link } from "@tanstack/react-router";
import type { RequestDetail } from "@/api/pending";
import { Badge } from "@/components/Badge";
import { originWords, outcomeWords, placeWords } from "./route";

/** Why the request went where it did: the decision as the log keeps it. */
export function RouteTaken({ request }: { request: RequestDetail }) {
  const isSame = request.requested_model === request.model;
  const warnings = request.warnings ?? [];
  return (
    <div className="card flex flex-col items-start gap-3 p-4">
      <p>
        The request asked for <strong>{request.requested_model}</strong>
        {request.model && !isSame ? (
          <>
            {" "}
            and was answered by <strong>{request.model}</strong>
          </>
        ) : null}
        . The candidates were ordered with the strategy <strong>{request.strategy}</strong>.{" "}
        {request.fallback_used ? <Badge look="warn">a fallback answered</Badge> : null}
      </p>
      {request.route ? <Decision route={request.route} /> : <OnlyCandidate request={request} />}
      {warnings.length > 0 ? (
        <p className="flex flex-wrap items-center gap-2">
          Warnings:
          {warnings.map((warning) => (
            <Badge key={warning} look="warn">
              {warning}
            </Badge>
          ))}
        </p>
      ) : null}
      <Link
        to="/providers"
        search={{ tab: "explain", model: request.requested_model, key: request.key }}
        className="link"
      >
        Explain where it would go now
      </Link>
    </div>
  );
}

/** A request without a choice. It shows only its attempts. */
function OnlyCandidate({ request }: { request: RequestDetail }) {
  const steps = (request.attempts ?? []).map((attempt, index) => ({
    number: index + 1,
    text: `${attempt.model} at ${attempt.provider}: ${outcomeWords(attempt.status === "ok" ? "answered" : attempt.status)}`,
  }));
  return (
    <>
      <p className="text-muted">
        {steps.length > 0
          ? "There was one candidate, and no other model was considered."
          : "No candidate was called."}
      </p>
      <ol className="list-decimal pl-5">
        {steps.map((step) => (
          <li key={step.number}>{step.text}</li>
        ))}
      </ol>
    </>
  );
}

function Decision({ route }: { route: NonNullable<RequestDetail["route"]> }) {
  return (
    <>
      {route.candidates.length > 0 ? (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        <div className="max-w-full overflow-x-auto" tabIndex={0}>
          <table aria-label="Candidates" className="text-left">
            <thead>
              <tr>
                {["Order", "Model", "Outcome", "Came as", "Place"].map((name) => (
                  <th key={name} scope="col" className="py-1 pr-6 font-semibold">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {route.candidates.map((candidate, index) => (
                <tr key={candidate.model} className="border-t border-line">
                  <td className="py-1 pr-6 tabular-nums">{index + 1}</td>
                  <td className="py-1 pr-6 break-words">{candidate.model}</td>
                  <td className="py-1 pr-6">{outcomeWords(candidate.outcome)}</td>
                  <td className="py-1 pr-6">{originWords(candidate.origin)}</td>
                  <td className="py-1 pr-6">{placeWords(candidate.tier)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : null}
      {route.excluded.length > 0 ? (
        <div>
          <p>Could not serve the request:</p>
          <ul className="list-disc pl-5">
            {route.excluded.map((other) => (
              <li key={other.model} className="break-words">
                <strong>{other.model}</strong>: {other.reason}
              </li>
            ))}
          </ul>
        </div>
      ) : null}
      {route.left_out > 0 ? <p className="text-muted">The log leaves out {route.left_out} more.</p> : null}
    </>
  );
}
