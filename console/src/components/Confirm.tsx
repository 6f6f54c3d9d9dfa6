import * as Radix from "@radix-ui/react-alert-dialog";
import { type ReactNode, useState } from "react";
import { Button, type ButtonLook } from "./Button";
import { Problem } from "./Notice";

interface ConfirmProps {
  /** The button that asks, and the one that does it. */
  action: string;
  question: string;
  children: ReactNode;
  look?: ButtonLook;
  /** What the asking button is called, when there are several of them on a page. */
  label?: string;
  onConfirm: () => Promise<unknown>;
}

/** A button whose action needs a second click. */
export function Confirm({ action, question, children, look = "danger", label, onConfirm }: ConfirmProps) {
  const [isOpen, setOpen] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);

  async function confirm() {
    setBusy(true);
    setError(null);
    try {
      await onConfirm();
      setOpen(false);
    } catch (failure) {
      setError(failure instanceof Error ? failure : new Error(String(failure)));
    } finally {
      setBusy(false);
    }
  }

  return (
    <Radix.Root open={isOpen} onOpenChange={setOpen}>
      <Radix.Trigger asChild>
        <Button look={look} aria-label={label}>
          {action}
        </Button>
      </Radix.Trigger>
      <Radix.Portal>
        <div aria-hidden="true" className="fixed inset-0 z-40 bg-[rgb(0_0_0/0.45)]" />
        <Radix.Content
          aria-modal="true"
          className="card fixed top-[15dvh] left-1/2 z-50 w-[calc(100%-2rem)] max-w-md -translate-x-1/2 p-5 shadow-xl"
        >
          <Radix.Title>{question}</Radix.Title>
          <Radix.Description asChild>
            <div className="mt-2 mb-4 text-muted">{children}</div>
          </Radix.Description>
          <Problem error={error} />
          <div className="mt-4 flex justify-end gap-2">
            <Radix.Cancel asChild>
              <Button>Cancel</Button>
            </Radix.Cancel>
            <Button look={look} disabled={isBusy} onClick={confirm}>
              {action}
            </Button>
          </div>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
