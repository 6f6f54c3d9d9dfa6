import { type QueryClient, queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { createContext, useContext, useEffect, useEffectEvent } from "react";
import { apiUrl, bodyOf, client } from "./client";
import { ApiError } from "./errors";
import type { Session } from "./pending";

export type { Session };
export type Role = NonNullable<Session["role"]>;
export type Right = keyof NonNullable<Session["rights"]>;
export type SignedIn = Session & Required<Pick<Session, "kind" | "id" | "name" | "role" | "rights" | "api">>;

export const sessionQuery = queryOptions({
  queryKey: ["session"],
  staleTime: 60_000,
  queryFn: ({ signal }) =>
    bodyOf(client.GET("/auth/session", { signal, headers: { accept: "application/json" } })),
});

export function isSignedIn(session: Session | undefined): session is SignedIn {
  return session?.signed_in === true && session.rights !== undefined && session.role !== undefined;
}

export function useSession() {
  return useQuery(sessionQuery);
}

/** The session that the screens began with. It may have ended: they wait behind the sign-in then. */
export const BegunSession = createContext<SignedIn | null>(null);

/** The session of somebody who is signed in. Only screens use it, which the layout shows after the sign-in. */
export function useSignedIn(): SignedIn {
  const { data } = useSession();
  const begun = useContext(BegunSession);
  const session = isSignedIn(data) ? data : begun;
  if (session === null) throw new Error("Nobody is signed in.");
  return session;
}

/** Asks for the session again when an error says that it may have ended. */
export function lookAtSession(queries: QueryClient, error: Error | null): void {
  if (error instanceof ApiError && error.status === 401) {
    queries.invalidateQueries({ queryKey: sessionQuery.queryKey });
  }
}

/** Whether the session has a right: controls without it are not shown. */
export function useRight(right: Right): boolean {
  return useSignedIn().rights[right];
}

/** Everything but the session itself, which the layout watches. */
const ANSWERS = {
  predicate: (query: { queryKey: readonly unknown[] }) => query.queryKey[0] !== sessionQuery.queryKey[0],
};

/** Whether two sessions have other rights to what was read: they are of two holders, or the role has changed. */
export function isAnother(session: SignedIn, before: SignedIn): boolean {
  return session.id !== before.id || session.role !== before.role;
}

/** Forgets what another session has read. */
export function forgetAnswers(queries: QueryClient): void {
  queries.removeQueries(ANSWERS);
}

type Proof = { key: string } | { token: string };

function prove(proof: Proof): Promise<Session> {
  return bodyOf(
    "key" in proof ? client.POST("/auth/key", { body: proof }) : client.POST("/auth/link", { body: proof }),
  );
}

/** Signs in with a key or with the token of a link. Who had the session that ended, `ended`, gets their screens back. */
export function useSignIn(ended: SignedIn | null = null) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: prove,
    onSuccess: async (session) => {
      // An answer that is still under way was asked for without the new session, and must not replace it.
      await queries.cancelQueries();
      if (ended === null || !isSignedIn(session) || isAnother(session, ended)) forgetAnswers(queries);
      queries.setQueryData(sessionQuery.queryKey, session);
      if (ended !== null) await queries.invalidateQueries(ANSWERS);
    },
  });
}

/** Tells the other tabs of a sign-out. Another gateway at this origin, under another path, has a channel of its own. */
const signOuts = new BroadcastChannel(`signed-out ${apiUrl("/auth/logout")}`);

/** Signs this tab out as well when the reader signs out in another one, because all tabs share the cookie. */
export function useSignOutElsewhere(onSignedOut: () => void): void {
  const queries = useQueryClient();
  const leave = useEffectEvent(async () => {
    onSignedOut();
    await queries.cancelQueries();
    // The screens go at once, also while the gateway does not answer.
    queries.setQueryData(sessionQuery.queryKey, (session) => session && { ...session, signed_in: false });
    forgetAnswers(queries);
    await queries.invalidateQueries({ queryKey: sessionQuery.queryKey });
  });
  useEffect(() => {
    const onMessage = () => void leave();
    signOuts.addEventListener("message", onMessage);
    return () => signOuts.removeEventListener("message", onMessage);
  }, []);
}

/** Ends the session. `onSignedOut` is told before the screens learn of it. */
export function useSignOut(onSignedOut: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async () => {
      await client.POST("/auth/logout");
      onSignedOut();
      signOuts.postMessage(null);
    },
    onSettled: async () => {
      await queries.cancelQueries();
      forgetAnswers(queries);
      await queries.invalidateQueries({ queryKey: sessionQuery.queryKey });
    },
  });
}
