import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { apiUrl } from "@/api/client";
import { errorOf } from "@/api/errors";
import { useSignedIn } from "@/api/session";
import { apiBase } from "@/app/places";
import { Copy } from "@/components/Copy";
import { Loaded } from "@/components/Loaded";
import { Loading, Notice } from "@/components/Notice";
import { Screen } from "@/components/Screen";

const Explorer = lazy(() => import("./Explorer"));

/** The API in the gateway's own words, from its OpenAPI document. */
export function Reference() {
  const { api } = useSignedIn();
  const address = apiUrl("/openapi.json");
  const document = useQuery({
    queryKey: ["openapi.json"],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async ({ signal }): Promise<Record<string, unknown>> => {
      const response = await fetch(address, { signal });
      if (!response.ok) throw await errorOf(response);
      return response.json();
    },
  });
  const base = api.same_origin ? apiBase : `http://${api.listen}/v1`;
  return (
    <Screen
      title="API reference"
      lead={
        <>
          Every operation with its members, types, examples and errors. “Try it out” sends a real request with
          your session. Clients send a gateway key to <code>{base}</code>.
        </>
      }
      actions={
        <>
          <Copy label="Copy base URL" text={base} />
          <a href={address} className="link" download="openapi.json">
            OpenAPI document
          </a>
        </>
      }
    >
      {api.same_origin ? null : (
        <Notice>
          This console reaches only the management API: operations below /v1 are at {api.listen}.
        </Notice>
      )}
      <Loaded query={document} what="the OpenAPI document">
        {(spec) => (
          <section aria-labelledby="operations-heading">
            <h2 id="operations-heading" className="sr-only">
              Operations
            </h2>
            <Suspense fallback={<Loading what="the reference" />}>
              <Explorer spec={spec} />
            </Suspense>
          </section>
        )}
      </Loaded>
    </Screen>
  );
}
