import * as Radix from "@radix-ui/react-tabs";
import type { ReactNode } from "react";

export interface Tab<T extends string> {
  value: T;
  label: string;
}

interface TabsProps<T extends string> {
  label: string;
  tabs: readonly Tab<T>[];
  value: T;
  onChange: (value: T) => void;
  children: ReactNode;
}

/** Tabs over one panel. The chosen one stands in the address, so it comes from outside. */
export function Tabs<T extends string>({ label, tabs, value, onChange, children }: TabsProps<T>) {
  function choose(next: string) {
    const tab = tabs.find((item) => item.value === next);
    if (tab) onChange(tab.value);
  }
  return (
    <Radix.Root value={value} onValueChange={choose} activationMode="manual">
      <Radix.List aria-label={label} className="mb-3 flex flex-wrap gap-1 border-b border-line">
        {tabs.map((tab) => (
          <Radix.Trigger
            key={tab.value}
            value={tab.value}
            className="-mb-px border-b-2 border-transparent px-3 py-1.5 font-medium text-muted hover:text-text data-[state=active]:border-accent data-[state=active]:text-accent"
          >
            {tab.label}
          </Radix.Trigger>
        ))}
      </Radix.List>
      <Radix.Content key={value} value={value} tabIndex={-1}>
        {children}
      </Radix.Content>
    </Radix.Root>
  );
}
