import { useQueryClient } from "@tanstack/react-query";
import { client } from "@/api/client";
import type { RequestDetail } from "@/api/pending";
import { useRight } from "@/api/session";
import { Confirm } from "@/components/Confirm";
import { Copy } from "@/components/Copy";
import { Empty } from "@/components/Notice";

/** Indents a JSON document; other texts stay as they are. */
export function readable(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** The stored prompt and answer, as text only. */
export function Payload({ request }: { request: RequestDetail }) {
  const mayRead = useRight("read_payloads");
  const { payload } = request;
  if (!payload) {
    return (
      <Empty title="Nothing was kept.">
        <p>
          {mayRead
            ? "The gateway keeps prompts and answers only for keys with log_payloads, which a key's page switches on."
            : "Your role may not read prompts and answers."}
        </p>
      </Empty>
    );
  }
  return (
    <div className="flex flex-col gap-4">
      <div className="grid gap-4 xl:grid-cols-2">
        <Body title="Request" text={payload.request} isCut={payload.request_truncated} />
        <Body title="Answer" text={payload.response} isCut={payload.response_truncated} />
      </div>
      <DeletePayload requestId={request.request_id} />
    </div>
  );
}

function Body({ title, text, isCut }: { title: string; text: string; isCut: boolean }) {
  return (
    <div className="min-w-0">
      <div className="mb-1 flex items-center gap-2">
        <h3>{title}</h3>
        <Copy label={`Copy ${title.toLowerCase()}`} text={text} />
        {isCut ? <span className="text-muted">The end was cut.</span> : null}
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
      <pre tabIndex={0} className="code max-h-96 overflow-auto">
        {readable(text)}
      </pre>
    </div>
  );
}

function DeletePayload({ requestId }: { requestId: string }) {
  const mayDelete = useRight("configure");
  const queries = useQueryClient();
  if (!mayDelete) return null;
  async function remove() {
    await client.DELETE("/admin/v1/requests/{request_id}/payload", {
      params: { path: { request_id: requestId } },
    });
    await queries.invalidateQueries({ queryKey: ["get", "/admin/v1/requests/{request_id}"] });
  }
  return (
    <div>
      <Confirm
        action="Delete prompt and answer"
        question="Delete the prompt and the answer?"
        onConfirm={remove}
      >
        The row of the request stays, with its tokens and its cost. The texts cannot be brought back.
      </Confirm>
    </div>
  );
}
