import { MutationCache, QueryCache, QueryClient, QueryObserver, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { ApiError } from "@/api/errors";
import { lookAtSession, sessionQuery } from "@/api/session";
import { forgetOfferedKey } from "@/screens/clients/newKey";

/** The cache of everything that the screens have read. A session that ended leads back to the sign-in. */
export function createQueryClient(): QueryClient {
  const queries: QueryClient = new QueryClient({
    queryCache: new QueryCache({
      onError: (error, query) => {
        if (query.queryKey[0] !== sessionQuery.queryKey[0]) lookAtSession(queries, error);
      },
    }),
    mutationCache: new MutationCache({ onError: (error) => lookAtSession(queries, error) }),
    defaultOptions: {
      queries: {
        staleTime: 5_000,
        retry: (failures, error) => !(error instanceof ApiError) && failures < 2,
      },
    },
  });
  return queries;
}

/** Keeps what the screens behind the sign-in have read, because their forms are gone without it. Nothing is asked for, and no secret is kept. */
export function useHeldAnswers(areHeld: boolean): void {
  const queries = useQueryClient();
  useEffect(() => {
    if (!areHeld) return;
    forgetOfferedKey(queries);
    const held = queries.getQueryCache().getAll();
    const ends = held.map((query) =>
      new QueryObserver(queries, { ...query.options, queryKey: query.queryKey, enabled: false }).subscribe(
        () => {},
      ),
    );
    return () => {
      for (const end of ends) end();
    };
  }, [queries, areHeld]);
}
