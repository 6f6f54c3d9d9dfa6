import { getRouteApi } from "@tanstack/react-router";
import { type ReactNode, useEffect, useMemo, useState } from "react";
import { useSignedIn } from "@/api/session";
import { apiBase } from "@/app/places";
import { Button } from "@/components/Button";
import { Notice, Problem } from "@/components/Notice";
import { Screen } from "@/components/Screen";
import { canChat, useModels } from "../models/catalogue";
import { ModelSelect } from "../models/ModelSelect";
import { Code } from "./Code";
import { Composer, type Message } from "./Composer";
import { Conversations } from "./Conversations";
import { bodyOf, NO_SETTINGS, SettingProblem, SURFACES, type Surface } from "./draft";
import { SettingsForm } from "./SettingsForm";
import { mayAdd, modelsOf } from "./search";
import { type Conversation, forgetAll, keep, storedConversations } from "./stored";
import { TurnView } from "./TurnView";
import { historyOf, useConversation } from "./useConversation";
import { useOpenedRequest } from "./useOpenedRequest";

const route = getRouteApi("/playground");
const NO_MESSAGE: Message = { text: "", images: [], times: 1 };

function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16)).join("");
}

/** The models and the surface, which stand in the address. */
function useChoice() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const catalogue = useModels();
  const first = catalogue.data?.find(canChat)?.id ?? "";
  const chosen = modelsOf(search.models);
  const models = chosen.length > 0 ? chosen : [first];
  const surface: Surface = SURFACES.find((name) => name === search.surface) ?? "chat";
  const change = (next: { models?: readonly string[]; surface?: Surface }) =>
    navigate({
      search: (now) => ({
        ...now,
        request: undefined,
        ...(next.models ? { models: next.models.join(",") } : {}),
        ...(next.surface ? { surface: next.surface === "chat" ? undefined : next.surface } : {}),
      }),
      replace: true,
      resetScroll: false,
    });
  return { models, surface, change, catalogue };
}

/** A conversation with its models, settings and answers. */
export function Session() {
  const { id: owner } = useSignedIn();
  const { models, surface, change, catalogue } = useChoice();
  const [settings, setSettings] = useState(NO_SETTINGS);
  const [message, setMessage] = useState(NO_MESSAGE);
  const [problem, setProblem] = useState<SettingProblem | null>(null);
  const [id, setId] = useState(newId);
  const [stored, setStored] = useState(() => storedConversations(owner));
  const { turns, isRunning, ask, stop, replace } = useConversation();

  const opened = useOpenedRequest((request) => {
    setSettings(request.settings);
    replace(request.turns);
    setMessage({ ...NO_MESSAGE, ...request.message });
  });

  // biome-ignore lint/correctness/useExhaustiveDependencies: a conversation is kept when its answers have ended
  useEffect(() => {
    if (isRunning || turns.length === 0) return;
    const at = new Date().toISOString();
    setStored(keep(owner, { id, at, surface, models, settings, turns }));
  }, [isRunning]);

  async function send() {
    const outgoing = { surface, models, settings, ...message };
    try {
      setProblem(null);
      const answered = ask(outgoing);
      setMessage({ ...NO_MESSAGE, times: message.times });
      if (!(await answered)) setMessage(message);
    } catch (error) {
      if (!(error instanceof SettingProblem)) throw error;
      setProblem(error);
      setMessage(message);
    }
  }

  function begin() {
    replace([]);
    setId(newId());
  }

  function open(conversation: Conversation) {
    setId(conversation.id);
    setSettings(conversation.settings);
    replace(conversation.turns);
    change({ models: conversation.models, surface: conversation.surface });
  }

  return (
    <Screen
      title="Playground"
      lead="Every message is a real request: it counts against the limits and the budget of the key that you signed in with."
      actions={
        <>
          <Code
            surface={surface}
            base={apiBase}
            body={() =>
              bodyOf(
                surface,
                models[0] ?? "",
                [
                  ...historyOf(turns, 0),
                  { role: "user", text: message.text || "Hello!", images: message.images },
                ],
                settings,
              )
            }
          />
          <Button onClick={begin} disabled={turns.length === 0}>
            New conversation
          </Button>
        </>
      }
    >
      <Problem error={catalogue.error} onRetry={catalogue.refetch} />
      {opened.note ? <Notice look={opened.isProblem ? "warn" : "info"}>{opened.note}</Notice> : null}
      <div className="grid gap-5 xl:grid-cols-[minmax(0,1fr)_20rem]">
        <div className="flex min-w-0 flex-col gap-4">
          <ModelRow models={models} onChange={(next) => change({ models: next })} />
          {turns.length > 0 ? (
            <ol aria-label="Conversation" className="flex flex-col gap-5">
              {turns.map((turn, index) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: a message has no other name than its place
                <TurnView key={index} turn={turn} />
              ))}
            </ol>
          ) : null}
          {problem ? <Notice look="bad">{problem.message} Nothing was sent.</Notice> : null}
          <Composer
            message={message}
            onChange={setMessage}
            onSend={send}
            onStop={stop}
            isRunning={isRunning}
            models={models}
          />
        </div>
        <div className="flex min-w-0 flex-col gap-4">
          <Fold title="Settings">
            <SettingsForm
              surface={surface}
              onSurface={(next) => change({ surface: next })}
              settings={settings}
              onChange={setSettings}
              problem={problem}
            />
          </Fold>
          <Fold title="Conversations">
            <Conversations
              all={stored}
              onOpen={open}
              onForget={() => {
                forgetAll(owner);
                setStored([]);
              }}
            />
          </Fold>
        </div>
      </div>
    </Screen>
  );
}

function Fold({ title, children }: { title: string; children: ReactNode }) {
  const isWide = useMemo(() => window.matchMedia("(min-width: 80rem)").matches, []);
  return (
    <details className="card" open={isWide}>
      <summary className="px-3 py-2 font-medium">{title}</summary>
      <div className="border-t border-line p-3">{children}</div>
    </details>
  );
}

interface ModelRowProps {
  models: readonly string[];
  onChange: (models: readonly string[]) => void;
}

function ModelRow({ models, onChange }: ModelRowProps) {
  const columns = models.map((model, index) => ({
    model,
    index,
    label: index === 0 ? "Model" : `Model ${index + 1}`,
  }));
  return (
    <div className="flex flex-wrap items-end gap-3">
      {columns.map(({ model, index, label }) => (
        <div key={label} className="flex min-w-0 items-end gap-1">
          <ModelSelect
            label={label}
            value={model}
            onChange={(next) => onChange(models.map((other, i) => (i === index ? next : other)))}
          />
          {models.length > 1 ? (
            <Button
              look="quiet"
              aria-label={`Remove column ${index + 1}`}
              onClick={() => onChange(models.filter((_, i) => i !== index))}
            >
              ✕
            </Button>
          ) : null}
        </div>
      ))}
      {mayAdd(models) ? (
        <Button onClick={() => onChange([...models, models.at(-1) ?? ""])}>Add a model</Button>
      ) : null}
    </div>
  );
}
