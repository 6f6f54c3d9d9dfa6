import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { api, type Schemas } from "@/api/client";
import { useRight } from "@/api/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Copy } from "@/components/Copy";
import { Loaded } from "@/components/Loaded";
import { Empty } from "@/components/Notice";
import { article, type Change, KINDS, type ListSection, useSave } from "./changes";
import { Editor } from "./Editor";
import { Saved } from "./Saved";
import { tomlOf } from "./toml";
import { oneLine, targetsText, type Value } from "./value";

type Entry = Omit<Schemas["ConfigEntry"], "value"> & { value: Value };

const route = getRouteApi("/configuration");
/** The entries of a list, each with where it comes from. */
export function Entries({ section }: { section: ListSection }) {
  const { edit } = route.useSearch();
  const navigate = route.useNavigate();
  const mayEdit = useRight("configure");
  const [saved, setSaved] = useState<Change>();
  const entries = api.useQuery("get", "/admin/v1/config/{section}", { params: { path: { section } } });
  const setEdit = (name: string | undefined) =>
    navigate({ search: (now) => ({ ...now, edit: name }), replace: true, resetScroll: false });
  const isAdding = edit === "+";

  return (
    <Loaded query={entries} what={`the ${section}`}>
      {(list) => {
        const rows: Entry[] =
          "data" in list ? list.data.map((entry) => ({ ...entry, value: { ...Object(entry.value) } })) : [];
        const edited = rows.find((entry) => entry.name === edit && entry.source === "api");
        return (
          <div className="flex flex-col gap-3">
            {mayEdit ? (
              <div>
                <Button look="primary" onClick={() => setEdit("+")}>
                  Add {article(KINDS[section])} {KINDS[section]}
                </Button>
              </div>
            ) : null}
            <Saved change={saved} />
            {rows.length === 0 ? <Empty title={`No ${section}.`} /> : null}
            <ul className="flex flex-col gap-2">
              {rows.map((entry) => (
                <EntryRow
                  key={entry.name}
                  section={section}
                  entry={entry}
                  mayEdit={mayEdit}
                  onEdit={() => setEdit(entry.name)}
                  onDeleted={setSaved}
                />
              ))}
            </ul>
            {mayEdit && (isAdding || edited) ? (
              <Editor
                key={edit}
                subject={{ section, name: edited?.name ?? "", version: edited?.version ?? 0 }}
                before={edited?.value ?? null}
                onSaved={(change) => {
                  setSaved(change);
                  setEdit(undefined);
                }}
                onClose={() => setEdit(undefined)}
              />
            ) : null}
          </div>
        );
      }}
    </Loaded>
  );
}

interface EntryRowProps {
  section: ListSection;
  entry: Entry;
  mayEdit: boolean;
  onEdit: () => void;
  onDeleted: (change: Change) => void;
}

function EntryRow({ section, entry, mayEdit, onEdit, onDeleted }: EntryRowProps) {
  const save = useSave();
  const isOwn = entry.source === "api";
  async function remove() {
    const subject = { section, name: entry.name, version: entry.version };
    onDeleted(await save.mutateAsync({ subject, value: null }));
  }
  return (
    <li className="card flex flex-wrap items-start justify-between gap-3 px-4 py-3">
      <div className="min-w-0 flex-1">
        <p className="flex flex-wrap items-center gap-2">
          <strong className="break-all">{entry.name}</strong>
          {isOwn ? (
            <Badge look="accent">from the API, version {entry.version}</Badge>
          ) : (
            <Badge>from {entry.place ?? "the file"}</Badge>
          )}
        </p>
        <Summary section={section} value={entry.value} />
      </div>
      <div className="flex items-center gap-2">
        {isOwn ? null : (
          <Copy label="Copy as TOML" text={() => tomlOf(section, entry.name, entry.value)} look="quiet" />
        )}
        {isOwn && mayEdit ? (
          <>
            <Button aria-label={`Edit ${entry.name}`} onClick={onEdit}>
              Edit
            </Button>
            <Confirm
              action="Remove"
              label={`Remove ${entry.name}`}
              question={`Remove ${entry.name}?`}
              onConfirm={remove}
            >
              Requests that need it are refused from now on. The history keeps it, so you can undo this.
            </Confirm>
          </>
        ) : null}
      </div>
    </li>
  );
}

function Summary({ section, value }: { section: ListSection; value: Value }) {
  if (section === "aliases") {
    const { targets: _targets, ...others } = value;
    return (
      <p className="break-words text-muted">
        → {targetsText(value).split("\n").join(", ")}
        {Object.keys(others).length > 0 ? ` ${oneLine(others)}` : ""}
      </p>
    );
  }
  const members = Object.entries(value);
  if (members.length === 0) return <p className="text-muted">nothing but its name</p>;
  return (
    <p className="break-words font-mono text-xs text-muted">
      {members.map(([name, item]) => `${name} = ${oneLine(item)}`).join(", ")}
    </p>
  );
}
