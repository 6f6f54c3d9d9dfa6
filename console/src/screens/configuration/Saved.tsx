import { Button } from "@/components/Button";
import { Notice, Problem } from "@/components/Notice";
import { type Change, useUndo } from "./changes";

/** Says that a change is made, and takes it back. */
export function Saved({ change }: { change: Change | undefined }) {
  const undo = useUndo();
  if (!change) return null;
  const subject = change.name ?? change.section;
  if (undo.data?.undoes === change.version)
    return <Notice look="good">The change of {subject} is undone.</Notice>;
  return (
    <>
      <Notice look="good">
        <div className="flex flex-wrap items-center justify-between gap-2">
          <span>
            {subject} is saved as version {change.version}.{" "}
            {change.applies === "at_next_start" ? "It applies at the next start." : "It is in force."}
          </span>
          <Button disabled={undo.isPending} onClick={() => undo.mutate(change.version)}>
            Undo
          </Button>
        </div>
      </Notice>
      <Problem error={undo.error} />
    </>
  );
}
