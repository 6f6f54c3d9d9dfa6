import type { Right, SignedIn } from "@/api/session";

export interface NavItem {
  to:
    | "/"
    | "/requests"
    | "/models"
    | "/playground"
    | "/clients"
    | "/reference"
    | "/me"
    | "/keys"
    | "/providers"
    | "/budgets"
    | "/guards"
    | "/cache"
    | "/configuration"
    | "/audit";
  label: string;
  /** The right that the screen needs. */
  needs?: Right;
  /** Whether the screen calls `/v1`, which another listener may have. */
  callsV1?: boolean;
}

export interface NavGroup {
  label: string;
  items: NavItem[];
}

const GROUPS: NavGroup[] = [
  {
    label: "Watch",
    items: [
      { to: "/", label: "Overview", needs: "read" },
      { to: "/requests", label: "Requests", needs: "read" },
    ],
  },
  {
    label: "Use",
    items: [
      { to: "/models", label: "Models", callsV1: true },
      // At the management listener the page only explains why the playground is not available.
      { to: "/playground", label: "Playground", needs: "generate" },
      { to: "/clients", label: "Client set-up" },
      { to: "/reference", label: "API reference" },
      { to: "/me", label: "My key", callsV1: true },
    ],
  },
  {
    label: "Manage",
    items: [
      { to: "/keys", label: "Keys and teams", needs: "read" },
      { to: "/providers", label: "Providers and routing", needs: "read" },
      { to: "/budgets", label: "Budgets and alerts", needs: "read" },
      { to: "/guards", label: "Guards and sessions", needs: "read" },
      { to: "/cache", label: "Cache", needs: "read" },
      { to: "/configuration", label: "Configuration", needs: "read" },
      { to: "/audit", label: "Audit", needs: "read" },
    ],
  },
];

/** The screens that this session can use. */
export function navFor(session: Pick<SignedIn, "rights" | "api">): NavGroup[] {
  const isUsable = (item: NavItem) =>
    (item.needs === undefined || session.rights[item.needs]) && (!item.callsV1 || session.api.same_origin);
  return GROUPS.map((group) => ({ ...group, items: group.items.filter(isUsable) })).filter(
    (group) => group.items.length > 0,
  );
}
