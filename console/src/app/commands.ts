import type { SignedIn } from "@/api/session";
import { navFor } from "./nav";

export interface Command {
  id: string;
  label: string;
  /** Where it leads, or what it does. */
  to: { path: string; id?: string } | { theme: "light" | "dark" | "system" };
}

/** The commands that fit what the reader typed. An id of a request or a key leads to its page. */
export function commandsFor(session: Pick<SignedIn, "rights" | "api">, typed: string): Command[] {
  const words = typed.trim().toLowerCase().split(/\s+/);
  const screens: Command[] = navFor(session)
    .flatMap((group) => group.items)
    .map((item) => ({ id: item.to, label: item.label, to: { path: item.to } }));
  const themes: Command[] = (["light", "dark", "system"] as const).map((theme) => ({
    id: `theme-${theme}`,
    label: `Colours: ${theme}`,
    to: { theme },
  }));
  const fitting = [...screens, ...themes].filter((command) =>
    words.every((word) => command.label.toLowerCase().includes(word)),
  );
  return [...idCommands(session, typed.trim()), ...fitting];
}

function idCommands(session: Pick<SignedIn, "rights">, typed: string): Command[] {
  if (!session.rights.read) return [];
  if (/^req_\w+$/.test(typed)) {
    return [{ id: typed, label: `Open request ${typed}`, to: { path: "/requests/$requestId", id: typed } }];
  }
  if (/^(sk-gw-|cfg-)\w{6,}$/.test(typed)) {
    const id = typed.slice(0, typed.startsWith("sk-gw-") ? 12 : undefined);
    return [{ id, label: `Open key ${id}`, to: { path: "/keys/$keyId", id } }];
  }
  return [];
}
