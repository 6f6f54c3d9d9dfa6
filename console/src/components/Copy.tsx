import { useEffect, useState } from "react";
import { Button, type ButtonLook } from "./Button";

interface CopyProps {
  text: string | (() => string);
  /** What the button says. */
  label?: string;
  look?: ButtonLook;
}

/** Copies a text and says so. */
export function Copy({ text, label = "Copy", look = "plain" }: CopyProps) {
  const [state, setState] = useState<"idle" | "copied" | "failed">("idle");
  useEffect(() => {
    if (state === "idle") return;
    const timer = setTimeout(() => setState("idle"), 2500);
    return () => clearTimeout(timer);
  }, [state]);

  async function copy() {
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
      setState("copied");
    } catch {
      setState("failed");
    }
  }

  return (
    <>
      <Button look={look} onClick={copy}>
        {label}
      </Button>
      <span role="status" className="text-muted">
        {state === "copied"
          ? "Copied."
          : state === "failed"
            ? "The browser refused. Mark the text and copy it."
            : ""}
      </span>
    </>
  );
}
