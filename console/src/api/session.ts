import { type QueryClient, queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { bodyOf, client } from "./client";
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

/** The session of somebody who is signed in. Only screens use it, which the layout shows after the sign-in. */
export function useSignedIn(): SignedIn {
  const { data } = useSession();
  if (!isSignedIn(data)) throw new Error("Nobody is signed in.");
  return data;
}

/** Whether the session has a right: controls without it are not shown. */
export function useRight(right: Right): boolean {
  return useSignedIn().rights[right];
}

/** Forgets what another session has read. The query of the session itself stays, because the layout watches it. */
function forgetAnswers(queries: QueryClient): void {
  queries.removeQueries({ predicate: (query) => query.queryKey[0] !== sessionQuery.queryKey[0] });
}

type Proof = { key: string } | { token: string };

function prove(proof: Proof): Promise<Session> {
  return bodyOf(
    "key" in proof ? client.POST("/auth/key", { body: proof }) : client.POST("/auth/link", { body: proof }),
  );
}

/** Signs in with a key or with the token of a link. */
export function useSignIn() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: prove,
    onSuccess: async (session) => {
      // An answer that is still under way was asked for without the new session, and must not replace it.
      await queries.cancelQueries();
      forgetAnswers(queries);
      queries.setQueryData(sessionQuery.queryKey, session);
    },
  });
}

export function useSignOut() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () => client.POST("/auth/logout"),
    onSettled: async () => {
      await queries.cancelQueries();
      forgetAnswers(queries);
      await queries.invalidateQueries({ queryKey: sessionQuery.queryKey });
    },
  });
}
