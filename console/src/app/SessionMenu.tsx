import { type SignedIn, useSignOut } from "@/api/session";
import { Button } from "@/components/Button";
import { Select } from "@/components/Field";
import { Problem } from "@/components/Notice";
import { consoleRoot } from "./places";
import { setTheme, type Theme, useTheme } from "./theme";

const THEMES: { value: Theme; label: string }[] = [
  { value: "system", label: "Colours of the system" },
  { value: "light", label: "Light" },
  { value: "dark", label: "Dark" },
];

interface SessionMenuProps {
  session: SignedIn;
  onSignedOut: () => void;
}

/** Who is signed in, the colours, and the way out. */
export function SessionMenu({ session, onSignedOut }: SessionMenuProps) {
  const theme = useTheme();
  const signOut = useSignOut(onSignedOut);
  return (
    <div className="flex flex-col gap-2 border-t border-line p-3">
      <Select
        label="Colours"
        isLabelHidden
        options={THEMES}
        value={theme}
        onChange={(event) =>
          setTheme(THEMES.find((item) => item.value === event.target.value)?.value ?? "system")
        }
      />
      <div className="px-1">
        <p className="truncate font-medium" title={session.id}>
          {session.name}
        </p>
        <p className="text-muted">
          {session.role}
          {session.team ? ` · ${session.team}` : ""}
        </p>
      </div>
      <Problem error={signOut.error} />
      <Button onClick={() => signOut.mutate()} disabled={signOut.isPending}>
        Sign out
      </Button>
      <p className="px-1 text-xs text-muted">
        {session.version ? `Version ${session.version}, ` : ""}
        <a className="underline" href={new URL("licenses.txt", consoleRoot).href}>
          licences
        </a>
      </p>
    </div>
  );
}
