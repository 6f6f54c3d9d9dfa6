import { type ReactNode, useEffect, useRef } from "react";

let isFirstScreen = true;

interface ScreenProps {
  title: string;
  /** One sentence under the title. */
  lead?: ReactNode;
  /** Controls beside the title. */
  actions?: ReactNode;
  children: ReactNode;
}

/** A screen with its heading and its document title. The heading gets the focus when the reader comes here. */
export function Screen({ title, lead, actions, children }: ScreenProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (!isFirstScreen) heading.current?.focus({ preventScroll: true });
    isFirstScreen = false;
  }, []);
  return (
    <>
      <title>{`${title} · Model Gateway`}</title>
      <header className="mb-5 flex flex-wrap items-start justify-between gap-x-6 gap-y-3">
        <div className="min-w-0 max-w-3xl">
          <h1 ref={heading} tabIndex={-1} className="break-words">
            {title}
          </h1>
          {lead ? <p className="mt-1 text-muted">{lead}</p> : null}
        </div>
        {actions ? <div className="flex flex-wrap items-center gap-2">{actions}</div> : null}
      </header>
      <div className="flex flex-col gap-6">{children}</div>
    </>
  );
}

interface SectionProps {
  title: string;
  lead?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}

/** A part of a screen with a heading of its own. */
export function Section({ title, lead, actions, children }: SectionProps) {
  return (
    <section aria-label={title} className="min-w-0">
      <div className="mb-2 flex flex-wrap items-end justify-between gap-2">
        <div>
          <h2>{title}</h2>
          {lead ? <p className="text-muted">{lead}</p> : null}
        </div>
        {actions ? <div className="flex flex-wrap items-center gap-2">{actions}</div> : null}
      </div>
      {children}
    </section>
  );
}
