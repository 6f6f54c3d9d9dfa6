import { useState } from "react";
import { Button } from "@/components/Button";
import { Copy } from "@/components/Copy";
import { Dialog } from "@/components/Dialog";
import { Tabs } from "@/components/Tabs";
import type { Surface } from "./draft";
import { codeFor, type Language } from "./snippets";

const TABS = [
  { value: "curl", label: "curl" },
  { value: "python", label: "Python" },
  { value: "typescript", label: "TypeScript" },
] as const;

interface CodeProps {
  surface: Surface;
  base: string;
  /** The request that would be sent now, or why there is none. */
  body: () => Record<string, unknown>;
}

function attempt(write: () => string): string {
  try {
    return write();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** The request as a program that the reader can take away. */
export function Code({ surface, base, body }: CodeProps) {
  const [isOpen, setOpen] = useState(false);
  const [language, setLanguage] = useState<Language>("curl");
  const code = isOpen ? attempt(() => codeFor(language, surface, base, body())) : "";
  return (
    <>
      <Button onClick={() => setOpen(true)}>Code</Button>
      <Dialog
        title="The request as a program"
        description="It reads the key from the environment variable KEY."
        isOpen={isOpen}
        onClose={() => setOpen(false)}
        isWide
      >
        <Tabs label="Language" tabs={TABS} value={language} onChange={setLanguage}>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
          <pre tabIndex={0} className="code mb-3 max-h-[55dvh] overflow-auto">
            {code}
          </pre>
          <Copy label="Copy code" text={code} />
        </Tabs>
      </Dialog>
    </>
  );
}
