import { MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";
import { ApiError } from "@/api/errors";
import { sessionQuery } from "@/api/session";

/** The cache of everything that the screens have read. A session that ended leads back to the sign-in. */
export function createQueryClient(): QueryClient {
  const lookAtSession = (error: Error) => {
    if (error instanceof ApiError && error.status === 401) {
      queries.invalidateQueries({ queryKey: sessionQuery.queryKey });
    }
  };
  const queries = new QueryClient({
    queryCache: new QueryCache({
      onError: (error, query) => {
        if (query.queryKey[0] !== sessionQuery.queryKey[0]) lookAtSession(error);
      },
    }),
    mutationCache: new MutationCache({ onError: lookAtSession }),
    defaultOptions: {
      queries: {
        staleTime: 5_000,
        retry: (failures, error) => !(error instanceof ApiError) && failures < 2,
      },
    },
  });
  return queries;
}
