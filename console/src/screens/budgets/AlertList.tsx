import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, bodyOf, client, type Paths } from "@/api/client";
import { useRight } from "@/api/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Loaded } from "@/components/Loaded";
import { Empty, Notice, Problem } from "@/components/Notice";
import { count } from "@/format/numbers";
import { duration } from "@/format/time";

type Alert =
  Paths["/admin/v1/alerts"]["get"]["responses"]["200"]["content"]["application/json"]["data"][number];

/** The alerts, the state of their queues, and a test of each. */
export function AlertList() {
  const alerts = api.useQuery("get", "/admin/v1/alerts", {}, { refetchInterval: 10_000 });
  return (
    <Loaded query={alerts} what="the alerts">
      {(list) =>
        list.data.length === 0 ? (
          <Empty title="No alert.">
            <p>
              An alert tells a webhook, Slack, Teams or PagerDuty when a budget is spent or a provider is
              down.{" "}
              <Link to="/configuration" search={{ tab: "alerts", edit: "+" }} className="link">
                Add an alert
              </Link>
            </p>
          </Empty>
        ) : (
          <>
            <ul className="card divide-y divide-line">
              {list.data.map((alert) => (
                <AlertRow key={alert.name} alert={alert} />
              ))}
            </ul>
            <p className="text-muted">
              <Link to="/configuration" search={{ tab: "alerts" }} className="link">
                Change the alerts
              </Link>
            </p>
          </>
        )
      }
    </Loaded>
  );
}

function AlertRow({ alert }: { alert: Alert }) {
  const mayOperate = useRight("operate");
  const test = useMutation({
    mutationFn: () =>
      bodyOf(client.POST("/admin/v1/alerts/{name}/test", { params: { path: { name: alert.name } } })),
  });
  return (
    <li className="flex flex-col gap-2 px-4 py-3">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-1">
        <Badge look="accent">{alert.format}</Badge>
        <span className="font-medium">{alert.name}</span>
        <span className="text-muted">{alert.url}</span>
        <span className="text-muted">on {alert.on.join(", ")}</span>
        <span className="text-muted">{count(alert.waiting)} waiting</span>
        {mayOperate ? (
          <Button onClick={() => test.mutate()} disabled={test.isPending}>
            Send a test of {alert.name}
          </Button>
        ) : null}
      </div>
      {alert.last_error ? <Notice look="warn">The last attempt failed: {alert.last_error}</Notice> : null}
      <Problem error={test.error} />
      {test.data ? (
        <Notice look={test.data.delivered ? "good" : "bad"}>
          {test.data.delivered
            ? `The receiver took the test after ${duration(test.data.latency_ms)}.`
            : `The receiver did not take the test: ${test.data.error ?? `status ${test.data.status}`}`}
        </Notice>
      ) : null}
    </li>
  );
}
