import { type ComponentProps, type FormEvent, useState } from "react";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { TextField } from "@/components/Field";
import { Notice, Problem } from "@/components/Notice";
import { article, type Change, KINDS, type Subject, useDryRun, useSave } from "./changes";
import { Diff } from "./Diff";
import { linesOf } from "./diff";
import { MembersField } from "./MembersField";
import { ProviderFields } from "./ProviderFields";
import { TargetsField } from "./TargetsField";
import type { Value } from "./value";

interface EditorProps {
  /** The entry or the table; an entry without a name is a new one. */
  subject: Subject;
  /** Its value now; nothing for a new one. */
  before: Value | null;
  onSaved: (change: Change) => void;
  onClose: () => void;
}

/** Edits one value. The difference and the gateway's opinion stand below it before anything is saved. */
export function Editor({ subject, before, onSaved, onClose }: EditorProps) {
  const [value, setValue] = useState<Value>(before ?? {});
  const [name, setName] = useState(subject.name ?? "");
  const [problem, setProblem] = useState<string>();
  const save = useSave();
  const isNew = subject.name === "";
  const target = subject.name === undefined ? subject : { ...subject, name: name.trim() };
  const isChanged = linesOf(value).join() !== linesOf(before).join();
  const check = useDryRun(target, value, isChanged && problem === undefined);
  const isRefused = problem !== undefined || check.data?.is_valid === false;

  function submit(event: FormEvent) {
    event.preventDefault();
    save.mutate({ subject: target, value }, { onSuccess: onSaved });
  }

  return (
    <Dialog title={titleOf(subject)} isOpen onClose={onClose} isWide>
      <form onSubmit={submit} className="flex flex-col gap-4">
        {isNew ? (
          <TextField label="Name" required value={name} onChange={(event) => setName(event.target.value)} />
        ) : null}
        <Fields section={subject.section} value={value} onChange={setValue} onProblem={setProblem} />
        <div>
          <h3 className="mb-1">What changes</h3>
          <Diff label="Difference" before={before} after={value} />
        </div>
        <Verdict check={check.data} />
        <Problem error={save.error ?? check.error} />
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={!isChanged || isRefused || save.isPending}>
            Save
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

type FieldsProps = ComponentProps<typeof MembersField>;

/** The fields of a section: the common members have fields of their own. */
function Fields({ section, value, onChange, onProblem }: FieldsProps) {
  if (section === "aliases") return <TargetsField value={value} onChange={onChange} />;
  if (section === "providers")
    return <ProviderFields value={value} onChange={onChange} onProblem={onProblem} />;
  return <MembersField section={section} value={value} onChange={onChange} onProblem={onProblem} />;
}

function titleOf({ section, name }: Subject): string {
  if (name === undefined) return `Edit ${section}`;
  const kind = KINDS[section];
  return name === "" ? `Add ${article(kind)} ${kind}` : `Edit ${name}`;
}

/** What the dry run said. */
export function Verdict({ check }: { check: Change | undefined }) {
  if (!check) return null;
  if (check.is_valid === false) {
    return (
      <Notice look="bad">
        <p className="font-medium">The gateway would refuse this:</p>
        <List items={check.problems ?? []} />
      </Notice>
    );
  }
  return (
    <Notice look="good">
      <p>
        {check.applies === "at_next_start"
          ? `Valid. It applies at the next start${check.reason ? `: ${check.reason}` : "."}`
          : "Valid. It applies at once, also to other replicas."}
      </p>
      <List items={check.notes ?? []} />
    </Notice>
  );
}

function List({ items }: { items: readonly string[] }) {
  if (items.length === 0) return null;
  return (
    <ul className="list-disc pl-5">
      {items.map((item) => (
        <li key={item}>{item}</li>
      ))}
    </ul>
  );
}
