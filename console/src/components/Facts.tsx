import type { ReactNode } from "react";

export interface Fact {
  label: string;
  value: ReactNode;
}

/** Labels and their values. */
export function Facts({ facts }: { facts: readonly Fact[] }) {
  return (
    <dl className="card grid grid-cols-2 gap-x-6 gap-y-3 p-4 lg:grid-cols-3 xl:grid-cols-4">
      {facts.map((fact) => (
        <div key={fact.label} className="min-w-0">
          <dt className="text-muted">{fact.label}</dt>
          <dd className="break-words">{fact.value}</dd>
        </div>
      ))}
    </dl>
  );
}
