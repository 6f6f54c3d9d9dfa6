import { type FormEvent, useState } from "react";
import { useSignedIn } from "@/api/session";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { Checkbox, Select, TextArea, TextField } from "@/components/Field";
import { Problem } from "@/components/Notice";
import type { KeyForm } from "./form";
import { BudgetFields, OtherLimits } from "./LimitFields";

const ROLES = [
  { value: "inference", label: "inference: calls models" },
  { value: "viewer", label: "viewer: sees everything but prompts" },
  { value: "operator", label: "operator: changes keys and teams, too" },
  { value: "admin", label: "admin: everything" },
] as const;

interface KeyFormDialogProps {
  title: string;
  /** The button that sends the form. */
  action: string;
  initial: KeyForm;
  isBusy: boolean;
  error: Error | null;
  onSubmit: (form: KeyForm) => void;
  onClose: () => void;
}

/** Everything that a key can have. The rare things are folded away. */
export function KeyFormDialog({
  title,
  action,
  initial,
  isBusy,
  error,
  onSubmit,
  onClose,
}: KeyFormDialogProps) {
  const [form, setForm] = useState(initial);
  const change = (next: Partial<KeyForm>) => setForm((now) => ({ ...now, ...next }));
  const { role } = useSignedIn();
  // A key never gives more rights than it has.
  const roles = ROLES.filter((item) => item.value !== "admin" || role === "admin");

  function submit(event: FormEvent) {
    event.preventDefault();
    onSubmit(form);
  }

  return (
    <Dialog title={title} isOpen onClose={onClose}>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <TextField
          label="Name"
          required
          maxLength={200}
          hint="What lists and reports call the key"
          value={form.name}
          onChange={(event) => change({ name: event.target.value })}
        />
        <Select
          label="Role"
          options={roles}
          value={form.role}
          onChange={(event) =>
            change({ role: ROLES.find((r) => r.value === event.target.value)?.value ?? form.role })
          }
        />
        <BudgetFields form={form} onChange={change} />
        <details className="flex flex-col gap-3">
          <summary className="font-medium">Team, models and other limits</summary>
          <div className="mt-3 flex flex-col gap-3">
            <TextField
              label="Team"
              placeholder="no team"
              hint="The id of a team that exists"
              value={form.team}
              onChange={(event) => change({ team: event.target.value })}
            />
            <TextArea
              label="Models"
              rows={2}
              placeholder="all models"
              hint="Ids, aliases and patterns such as openai/*, separated by commas"
              value={form.models}
              onChange={(event) => change({ models: event.target.value })}
            />
            <OtherLimits form={form} onChange={change} />
            <TextField
              label="Ends at (UTC)"
              type="datetime-local"
              value={form.expiresAt}
              onChange={(event) => change({ expiresAt: event.target.value })}
            />
            <Checkbox
              label="Keep its prompts and answers, masked, for a time"
              checked={form.logsPayloads}
              onChange={(event) => change({ logsPayloads: event.target.checked })}
            />
            <Checkbox
              label="Believe the end users and tags of its requests"
              checked={form.trustsAttribution}
              onChange={(event) => change({ trustsAttribution: event.target.checked })}
            />
          </div>
        </details>
        <Problem error={error} />
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={isBusy}>
            {action}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
