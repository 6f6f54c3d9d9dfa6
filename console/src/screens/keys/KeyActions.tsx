import { useState } from "react";
import type { Schemas } from "@/api/client";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Dialog } from "@/components/Dialog";
import { Select } from "@/components/Field";
import { Problem } from "@/components/Notice";
import { changedMembers, keyBody, keyForm } from "./form";
import { KeyFormDialog } from "./KeyFormDialog";
import { useChangeKey, useRevokeKey, useRotateKey } from "./mutations";
import { NewSecret } from "./NewSecret";

/** What somebody who may change keys can do with one. */
export function KeyActions({ stored }: { stored: Schemas["Key"] }) {
  const revoke = useRevokeKey(stored.id);
  return (
    <>
      <EditKey stored={stored} />
      <RotateKey stored={stored} />
      <Confirm
        action="Revoke"
        question={`Revoke the key ${stored.name}?`}
        onConfirm={() => revoke.mutateAsync()}
      >
        Requests with this key get 401 from now on. This is final. Its requests and its spending stay in the
        reports.
      </Confirm>
    </>
  );
}

function EditKey({ stored }: { stored: Schemas["Key"] }) {
  const [isOpen, setOpen] = useState(false);
  const change = useChangeKey(stored.id);
  const before = keyForm(stored);
  return (
    <>
      <Button onClick={() => setOpen(true)}>Edit</Button>
      {isOpen ? (
        <KeyFormDialog
          title={`Edit ${stored.name}`}
          action="Save"
          initial={before}
          isBusy={change.isPending}
          error={change.error}
          onSubmit={(form) =>
            change.mutate(changedMembers(keyBody(before), keyBody(form)), { onSuccess: () => setOpen(false) })
          }
          onClose={() => setOpen(false)}
        />
      ) : null}
    </>
  );
}

const GRACES = [
  { value: "3600", label: "an hour more" },
  { value: "86400", label: "a day more" },
  { value: "604800", label: "a week more" },
  { value: "0", label: "no longer: it has leaked" },
];

function RotateKey({ stored }: { stored: Schemas["Key"] }) {
  const [step, setStep] = useState<"closed" | "grace" | "secret">("closed");
  const [grace, setGrace] = useState("3600");
  const rotate = useRotateKey(stored.id);
  return (
    <>
      <Button onClick={() => setStep("grace")}>Rotate</Button>
      {step === "grace" ? (
        <Dialog
          title={`Rotate the key ${stored.name}`}
          description="The key gets a new secret. Its id, its limits and its spending stay."
          isOpen
          onClose={() => setStep("closed")}
        >
          <div className="flex flex-col gap-4">
            <Select
              label="The old secret works"
              options={GRACES}
              value={grace}
              onChange={(event) => setGrace(event.target.value)}
            />
            <Problem error={rotate.error} />
            <div className="flex justify-end gap-2">
              <Button onClick={() => setStep("closed")}>Cancel</Button>
              <Button
                look="primary"
                disabled={rotate.isPending}
                onClick={() => rotate.mutate(Number(grace), { onSuccess: () => setStep("secret") })}
              >
                Rotate
              </Button>
            </div>
          </div>
        </Dialog>
      ) : null}
      {step === "secret" && rotate.data?.key ? (
        <NewSecret name={stored.name} secret={rotate.data.key} onClose={() => setStep("closed")} />
      ) : null}
    </>
  );
}
