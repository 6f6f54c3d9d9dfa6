import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";

const STORED = "model-gateway.theme";
const changed = new EventTarget();

function read(): Theme {
  try {
    const stored = localStorage.getItem(STORED);
    return stored === "light" || stored === "dark" ? stored : "system";
  } catch {
    return "system";
  }
}

export function applyTheme(theme: Theme = read()): void {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

export function setTheme(theme: Theme): void {
  try {
    if (theme === "system") localStorage.removeItem(STORED);
    else localStorage.setItem(STORED, theme);
  } catch {
    // A browser without storage shows the theme until the page is left.
  }
  applyTheme(theme);
  changed.dispatchEvent(new Event("change"));
}

/** Calls back when the colours change, by the reader's choice or by the system's. */
export function onThemeChange(callback: () => void): () => void {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  changed.addEventListener("change", callback);
  system.addEventListener("change", callback);
  return () => {
    changed.removeEventListener("change", callback);
    system.removeEventListener("change", callback);
  };
}

export function useTheme(): Theme {
  return useSyncExternalStore(onThemeChange, read);
}
