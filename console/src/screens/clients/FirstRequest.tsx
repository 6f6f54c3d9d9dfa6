import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { api, client } from "@/api/client";
import { useRight, useSignedIn } from "@/api/session";
import { Status } from "@/components/Badge";
import { Notice } from "@/components/Notice";
import { cost } from "@/format/numbers";
import { duration } from "@/format/time";
import { type LoggedRequest, useLiveRequests } from "../requests/live";
import { keyIdOf, useOfferedKey } from "./newKey";

const POLL_MS = 2000;

/** Waits for a request of the new client: over the live requests, or over the own figures of a key. */
export function FirstRequest() {
  const mayRead = useRight("read");
  const { api } = useSignedIn();
  if (mayRead) return <Live />;
  return api.same_origin ? <OwnFigures /> : null;
}

function Waiting() {
  return (
    <Notice>
      <span className="font-medium">Waiting for your first request…</span> It appears here as soon as it has
      been answered.
    </Notice>
  );
}

/** The first request that ended since the page was opened; with a new key only a request of that key. */
function useFirstRequest(): LoggedRequest | undefined {
  const secret = useOfferedKey();
  const [first, setFirst] = useState<LoggedRequest>();
  const key = secret === null ? {} : { key: keyIdOf(secret) };
  const live = useLiveRequests(key, first === undefined);
  const logged = useLoggedRequest(key, first === undefined && live.state === "lost");
  const arrived = live.rows.at(-1) ?? logged;
  useEffect(() => {
    if (arrived) setFirst((before) => before ?? arrived);
  }, [arrived]);
  return first ?? arrived;
}

/** The newest request since now, read again and again where the live requests cannot be followed. */
function useLoggedRequest(key: { key?: string }, isOn: boolean): LoggedRequest | undefined {
  const [since] = useState(() => new Date().toISOString());
  const query = { ...key, since, limit: 1 };
  const log = api.useQuery(
    "get",
    "/admin/v1/requests",
    { params: { query } },
    { enabled: isOn, refetchInterval: POLL_MS },
  );
  return log.data?.data[0];
}

function Live() {
  const first = useFirstRequest();
  if (!first) return <Waiting />;
  return (
    <Notice look={first.status === "ok" ? "good" : "warn"}>
      <span className="font-medium">Your first request has arrived.</span>{" "}
      {first.model ?? first.requested_model} over {first.surface} with the key {first.key_name || first.key}:{" "}
      <Status status={first.status} /> in {duration(first.latency_ms)}, cost{" "}
      {cost(first.cost_usd, first.unpriced ?? false)}.{" "}
      <Link to="/requests/$requestId" params={{ requestId: first.request_id }} className="link">
        See the request
      </Link>
    </Notice>
  );
}

function OwnFigures() {
  const before = useRef<number | undefined>(undefined);
  const requests = useQuery({
    queryKey: ["requests of this key"],
    refetchInterval: POLL_MS,
    queryFn: async ({ signal }) => {
      const { data } = await client.GET("/v1/me", { signal });
      const count = data?.spend.month.requests ?? 0;
      before.current ??= count;
      return count;
    },
  });
  const isThere = requests.data !== undefined && requests.data > (before.current ?? requests.data);
  if (!isThere) return <Waiting />;
  return (
    <Notice look="good">
      <span className="font-medium">Your first request has arrived.</span>{" "}
      <Link to="/me" className="link">
        See what your key spent
      </Link>
    </Notice>
  );
}
