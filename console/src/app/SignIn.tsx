import { type FormEvent, useState } from "react";
import type { Session, SignedIn } from "@/api/session";
import { useSignIn } from "@/api/session";
import { Button, buttonClass } from "@/components/Button";
import { TextField } from "@/components/Field";
import { Loading, Notice, Problem } from "@/components/Notice";
import { gatewayRoot } from "./places";

interface SignInProps {
  session: Session;
  /** The session that this page had until it ended. */
  ended: SignedIn | null;
  isLinkSigningIn: boolean;
  linkError: Error | null;
}

/** The ways in: a key, the link of the terminal, or the issuer. */
export function SignIn({ session, ended, isLinkSigningIn, linkError }: SignInProps) {
  return (
    <main className="mx-auto flex min-h-dvh w-full max-w-md flex-col justify-center gap-4 px-4 py-10">
      <title>Sign in · Model Gateway</title>
      <h1>Sign in to Model Gateway</h1>
      {ended ? (
        <Notice look="warn">
          Your session has ended. Sign in again.
          {ended.kind === "key" ? " With the same key you find the screen as you left it." : null}
        </Notice>
      ) : null}
      <Advice session={session} />
      <Problem error={linkError} />
      {isLinkSigningIn ? <Loading what="your session" /> : <KeyForm ended={ended} />}
      <IssuerLink session={session} />
      <p className="text-muted">
        No key at hand? On the gateway's machine, <code>model-gateway login</code> prints a link that signs
        in, and <code>model-gateway keys create --name me --role admin</code> makes a key.
      </p>
    </main>
  );
}

function Advice({ session }: { session: Session }) {
  if (session.host_is_known && session.can_keep_cookie && window.isSecureContext) return null;
  const advice =
    session.advice ??
    "This page came over plain HTTP from another machine, so the browser keeps no session. Use HTTPS, or an SSH tunnel to this machine.";
  return <Notice look="warn">{advice}</Notice>;
}

function KeyForm({ ended }: { ended: SignedIn | null }) {
  const [key, setKey] = useState("");
  const signIn = useSignIn(ended);

  function submit(event: FormEvent) {
    event.preventDefault();
    if (key.trim() !== "") signIn.mutate({ key: key.trim() });
  }

  return (
    <form onSubmit={submit} className="card flex flex-col gap-4 p-5">
      <TextField
        label="Key"
        type="password"
        autoComplete="current-password"
        spellCheck={false}
        placeholder="sk-gw-…"
        value={key}
        onChange={(event) => setKey(event.target.value)}
        hint="A key of this gateway. What you see here depends on its role."
      />
      <Problem error={signIn.error} />
      <Button type="submit" look="primary" disabled={signIn.isPending}>
        Sign in
      </Button>
    </form>
  );
}

function IssuerLink({ session }: { session: Session }) {
  const { oidc } = session.ways;
  if (!oidc) return null;
  return (
    <a className={buttonClass()} href={new URL(oidc.url, gatewayRoot).href}>
      Sign in with {new URL(oidc.issuer).host}
    </a>
  );
}
