import { useMutation, useQueryClient } from "@tanstack/react-query";
import { bodyOf, client, type Schemas } from "@/api/client";
import type { Limits } from "@/api/pending";

type KeyFields = Schemas["KeyFields"];

/** Reads the keys and the teams again, wherever they are shown. */
function useReload() {
  const queries = useQueryClient();
  return () =>
    queries.invalidateQueries({
      predicate: ({ queryKey }) => /^\/admin\/v1\/(keys|teams)/.test(String(queryKey[1])),
    });
}

export function useCreateKey() {
  const reload = useReload();
  return useMutation({
    mutationFn: (fields: KeyFields) => bodyOf(client.POST("/admin/v1/keys", { body: fields })),
    onSuccess: reload,
  });
}

export function useChangeKey(keyId: string) {
  const reload = useReload();
  return useMutation({
    mutationFn: (fields: KeyFields) =>
      client.PATCH("/admin/v1/keys/{key_id}", { params: { path: { key_id: keyId } }, body: fields }),
    onSuccess: reload,
  });
}

export function useRotateKey(keyId: string) {
  const reload = useReload();
  return useMutation({
    mutationFn: (graceSeconds: number) =>
      bodyOf(
        client.POST("/admin/v1/keys/{key_id}/rotate", {
          params: { path: { key_id: keyId } },
          body: { grace_seconds: graceSeconds },
        }),
      ),
    onSuccess: reload,
  });
}

export function useRevokeKey(keyId: string) {
  const reload = useReload();
  return useMutation({
    mutationFn: () => client.DELETE("/admin/v1/keys/{key_id}", { params: { path: { key_id: keyId } } }),
    onSuccess: reload,
  });
}

export function usePutTeam() {
  const reload = useReload();
  return useMutation({
    mutationFn: ({ id, limits }: { id: string; limits: Limits }) =>
      client.PUT("/admin/v1/teams/{team_id}", { params: { path: { team_id: id } }, body: limits }),
    onSuccess: reload,
  });
}

export function useDeleteTeam(teamId: string) {
  const reload = useReload();
  return useMutation({
    mutationFn: () => client.DELETE("/admin/v1/teams/{team_id}", { params: { path: { team_id: teamId } } }),
    onSuccess: reload,
  });
}
