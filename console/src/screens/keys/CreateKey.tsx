import { useState } from "react";
import { Button } from "@/components/Button";
import { EMPTY_KEY, keyBody } from "./form";
import { KeyFormDialog } from "./KeyFormDialog";
import { useCreateKey } from "./mutations";
import { NewSecret } from "./NewSecret";

/** Makes a key and shows its secret once. */
export function CreateKey() {
  const [step, setStep] = useState<"closed" | "form" | "secret">("closed");
  const create = useCreateKey();

  function open() {
    create.reset();
    setStep("form");
  }

  return (
    <>
      <Button look="primary" onClick={open}>
        Create key
      </Button>
      {step === "form" ? (
        <KeyFormDialog
          title="Create a key"
          action="Create"
          initial={EMPTY_KEY}
          isBusy={create.isPending}
          error={create.error}
          onSubmit={(form) => create.mutate(keyBody(form), { onSuccess: () => setStep("secret") })}
          onClose={() => setStep("closed")}
        />
      ) : null}
      {step === "secret" && create.data?.key ? (
        <NewSecret name={create.data.name} secret={create.data.key} onClose={() => setStep("closed")} />
      ) : null}
    </>
  );
}
