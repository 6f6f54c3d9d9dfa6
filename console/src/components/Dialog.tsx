import * as Radix from "@radix-ui/react-dialog";
import { type ReactNode, useRef } from "react";

interface DialogProps {
  title: string;
  description?: ReactNode;
  isOpen: boolean;
  onClose: () => void;
  isWide?: boolean;
  children: ReactNode;
}

/** The focus goes to the first field, and back to where it was when the dialog closes. */
function useDialogFocus() {
  const opener = useRef<Element>(null);
  function onOpenAutoFocus(event: Event) {
    // A dialog that comes back with its screen after a sign-in has no new opener.
    if (document.activeElement !== document.body) opener.current = document.activeElement;
    if (!(event.currentTarget instanceof HTMLElement)) return;
    const field = event.currentTarget.querySelector<HTMLElement>("input, textarea, select");
    if (!field) return;
    event.preventDefault();
    field.focus();
  }
  function onCloseAutoFocus(event: Event) {
    event.preventDefault();
    if (opener.current instanceof HTMLElement) opener.current.focus();
  }
  return { onOpenAutoFocus, onCloseAutoFocus };
}

/**
 * A modal dialog. The backdrop is our own, because Radix' overlay adds a `<style>` element, which the content
 * security policy refuses.
 */
export function Dialog({ title, description, isOpen, onClose, isWide = false, children }: DialogProps) {
  const focus = useDialogFocus();
  return (
    <Radix.Root open={isOpen} onOpenChange={(open) => (open ? undefined : onClose())}>
      <Radix.Portal>
        <div aria-hidden="true" className="fixed inset-0 z-40 bg-[rgb(0_0_0/0.45)]" />
        <Radix.Content
          {...(description ? {} : { "aria-describedby": undefined })}
          aria-modal="true"
          {...focus}
          className={`card fixed top-[6dvh] left-1/2 z-50 max-h-[88dvh] w-[calc(100%-2rem)] -translate-x-1/2 overflow-y-auto p-5 shadow-xl ${isWide ? "max-w-3xl" : "max-w-lg"}`}
        >
          <div className="mb-4 flex items-start justify-between gap-4">
            <div>
              <Radix.Title>{title}</Radix.Title>
              {description ? (
                <Radix.Description className="mt-1 text-muted">{description}</Radix.Description>
              ) : null}
            </div>
            <Radix.Close
              className="-mt-1 -mr-1 rounded px-2 py-1 text-muted hover:bg-raised"
              aria-label="Close"
            >
              ✕
            </Radix.Close>
          </div>
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
