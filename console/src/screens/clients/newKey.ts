import { type QueryClient, skipToken, useQuery, useQueryClient } from "@tanstack/react-query";

const PLACE = ["the key just made"];

/** Keeps a secret that was just made in the memory of this page, until the page closes or the session ends. */
export function useOfferKey(): (secret: string | null) => void {
  const queries = useQueryClient();
  return (secret) => {
    queries.setQueryDefaults(PLACE, {
      gcTime: Number.POSITIVE_INFINITY,
      staleTime: Number.POSITIVE_INFINITY,
    });
    queries.setQueryData(PLACE, secret);
  };
}

/** Forgets the secret that was just made, because the sign-in of an ended session may stand open for anybody. */
export function forgetOfferedKey(queries: QueryClient): void {
  queries.removeQueries({ queryKey: PLACE });
}

/** The secret that was just made, if there is one. */
export function useOfferedKey(): string | null {
  return useQuery<string | null>({ queryKey: PLACE, queryFn: skipToken }).data ?? null;
}

/** The id of a key: the first characters of its secret. */
export function keyIdOf(secret: string): string {
  return secret.slice(0, ID_LENGTH);
}

const ID_LENGTH = "sk-gw-Ab12Cd".length;
