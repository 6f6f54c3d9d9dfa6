interface MeterProps {
  /** What is measured: "Budget of search". */
  label: string;
  /** The used part, 0 to 1 or more. */
  used: number;
  /** The figures in words: "$3.20 of $25.00". */
  text: string;
}

/** How much of a limit is used: a bar for the eye, and the figures in words for everybody. */
export function Meter({ label, used, text }: MeterProps) {
  const part = Math.min(Math.max(used, 0), 1);
  const colour = part >= 0.9 ? "bg-bad" : part >= 0.75 ? "bg-warn" : "bg-action";
  return (
    <div className="min-w-32">
      <div aria-hidden="true" className="h-2 overflow-hidden rounded-full bg-raised">
        <div className={`h-full ${colour}`} style={{ width: `${part * 100}%` }} />
      </div>
      <p className="mt-1 text-xs text-muted">
        <span className="sr-only">{label}: </span>
        {text}
      </p>
    </div>
  );
}
