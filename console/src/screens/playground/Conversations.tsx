import { Confirm } from "@/components/Confirm";
import { Moment } from "@/components/Moment";
import { type Conversation, titleOf } from "./stored";

interface ConversationsProps {
  all: readonly Conversation[];
  onOpen: (conversation: Conversation) => void;
  onForget: () => void;
}

/** The conversations of this browser. */
export function Conversations({ all, onOpen, onForget }: ConversationsProps) {
  return (
    <div className="flex flex-col items-start gap-2">
      <p className="text-muted">
        Conversations stay in this browser, without their images. The gateway keeps prompts and answers only
        for keys with log_payloads.
      </p>
      {all.length > 0 ? (
        <>
          <ul className="flex w-full flex-col gap-1">
            {all.map((conversation) => (
              <li key={conversation.id} className="flex min-w-0 items-baseline justify-between gap-2">
                <button
                  type="button"
                  className="link min-w-0 truncate text-left"
                  onClick={() => onOpen(conversation)}
                >
                  {titleOf(conversation)}
                </button>
                <span className="text-xs text-muted">
                  <Moment at={conversation.at} />
                </span>
              </li>
            ))}
          </ul>
          <Confirm
            action="Forget all conversations"
            question="Forget all conversations?"
            onConfirm={async () => onForget()}
          >
            They are removed from this browser and cannot be brought back.
          </Confirm>
        </>
      ) : (
        <p>None yet.</p>
      )}
    </div>
  );
}
