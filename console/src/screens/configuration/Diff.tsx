import { type DiffLine, diffValues } from "./diff";

const LOOKS = { same: "", removed: "bg-bad-tint text-bad", added: "bg-good-tint text-good" } as const;
const SIGNS = { same: " ", removed: "−", added: "+" } as const;

interface DiffProps {
  label: string;
  before: unknown;
  after: unknown;
}

/** What a change removes and adds, line by line. */
export function Diff({ label, before, after }: DiffProps) {
  const lines = diffValues(before, after).map((line, index) => ({ ...line, number: index + 1 }));
  const hasChange = lines.some((line) => line.kind !== "same");
  if (!hasChange) return <p className="text-muted">No change.</p>;
  return (
    <figure aria-label={label} className="card overflow-x-auto py-2 font-mono text-xs leading-5">
      {lines.map((line) => (
        <DiffRow key={line.number} line={line} />
      ))}
    </figure>
  );
}

function DiffRow({ line }: { line: DiffLine }) {
  return (
    <div className={`px-3 whitespace-pre ${LOOKS[line.kind]}`}>
      <span className="inline-block w-4 select-none">{SIGNS[line.kind]}</span>
      {line.kind === "same" ? null : <span className="sr-only">{`${line.kind}: `}</span>}
      {line.text}
    </div>
  );
}
