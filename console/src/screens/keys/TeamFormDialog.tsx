import { type FormEvent, useState } from "react";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { TextField } from "@/components/Field";
import { Problem } from "@/components/Notice";
import type { LimitsForm } from "./form";
import { BudgetFields, OtherLimits } from "./LimitFields";

interface TeamFormDialogProps {
  title: string;
  action: string;
  /** The id of a team that exists; without it the form asks for one. */
  id?: string;
  initial: LimitsForm;
  isBusy: boolean;
  error: Error | null;
  onSubmit: (id: string, form: LimitsForm) => void;
  onClose: () => void;
}

export function TeamFormDialog({
  title,
  action,
  id,
  initial,
  isBusy,
  error,
  onSubmit,
  onClose,
}: TeamFormDialogProps) {
  const [name, setName] = useState(id ?? "");
  const [form, setForm] = useState(initial);
  const change = (next: Partial<LimitsForm>) => setForm((now) => ({ ...now, ...next }));

  function submit(event: FormEvent) {
    event.preventDefault();
    onSubmit(name, form);
  }

  return (
    <Dialog title={title} isOpen onClose={onClose}>
      <form onSubmit={submit} className="flex flex-col gap-4">
        {id === undefined ? (
          <TextField
            label="Name"
            required
            maxLength={64}
            pattern="[A-Za-z0-9._\-]+"
            title="Letters, digits, dots, underscores and hyphens"
            hint="The id of the team; it stays"
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        ) : null}
        <BudgetFields form={form} onChange={change} />
        <OtherLimits form={form} onChange={change} />
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
