import { api } from "@/api/client";
import { useRight } from "@/api/session";
import { Confirm } from "@/components/Confirm";
import { Loaded } from "@/components/Loaded";
import { Moment } from "@/components/Moment";
import { Empty } from "@/components/Notice";
import { type Change, useUndo } from "./changes";
import { Diff } from "./Diff";

/** Every change over the API, the newest first, and the way back. */
export function History() {
  const history = api.useQuery("get", "/admin/v1/config/history", { params: { query: { limit: 200 } } });
  const mayUndo = useRight("configure");
  return (
    <Loaded query={history} what="the history">
      {(page) =>
        page.data.length === 0 ? (
          <Empty title="No changes yet.">
            <p>Every change that is made here or over the API is listed, and can be undone.</p>
          </Empty>
        ) : (
          <ol className="flex flex-col gap-2">
            {page.data.map((change) => (
              <HistoryRow key={change.version} change={change} mayUndo={mayUndo} />
            ))}
          </ol>
        )
      }
    </Loaded>
  );
}

function verb({ before, after, undoes }: Change): string {
  if (undoes !== null) return `undid version ${undoes} of`;
  if (before === null) return "added";
  return after === null ? "removed" : "changed";
}

function HistoryRow({ change, mayUndo }: { change: Change; mayUndo: boolean }) {
  const undo = useUndo();
  const subject = change.name === null ? `[${change.section}]` : `${change.section} ${change.name}`;
  return (
    <li className="card px-4 py-3">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <p>
          <strong>Version {change.version}</strong>: {change.actor} {verb(change)} {subject}{" "}
          <span className="text-muted">
            <Moment at={change.changed_at} />
          </span>
        </p>
        {mayUndo ? (
          <Confirm
            action="Undo"
            look="plain"
            label={`Undo version ${change.version}`}
            question={`Undo version ${change.version}?`}
            onConfirm={() => undo.mutateAsync(change.version)}
          >
            {subject} gets the value that it had before this change. That is a change, too, and can be undone.
          </Confirm>
        ) : null}
      </div>
      <details className="mt-1">
        <summary className="text-muted">What changed</summary>
        <div className="mt-2">
          <Diff
            label={`Difference of version ${change.version}`}
            before={change.before}
            after={change.after}
          />
        </div>
      </details>
    </li>
  );
}
