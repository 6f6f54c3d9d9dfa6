import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, useId, useState } from "react";
import type { SignedIn } from "@/api/session";
import { Dialog } from "@/components/Dialog";
import { type Command, commandsFor } from "./commands";
import { setTheme } from "./theme";

interface PaletteProps {
  session: SignedIn;
  isOpen: boolean;
  onClose: () => void;
}

/** Goes anywhere by typing a few letters of its name, or an id. */
export default function CommandPalette({ session, isOpen, onClose }: PaletteProps) {
  return (
    <Dialog title="Go to…" isOpen={isOpen} onClose={onClose}>
      <Commands session={session} onClose={onClose} />
    </Dialog>
  );
}

function Commands({ session, onClose }: Omit<PaletteProps, "isOpen">) {
  const [typed, setTyped] = useState("");
  const [chosen, setChosen] = useState(0);
  const list = useId();
  const run = useRun(onClose);
  const commands = commandsFor(session, typed);
  const current = commands[chosen];

  function onKey(event: KeyboardEvent) {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0 && commands.length > 0) {
      event.preventDefault();
      setChosen((chosen + step + commands.length) % commands.length);
    }
    if (event.key === "Enter" && current) run(current);
  }

  return (
    <>
      <input
        className="field"
        role="combobox"
        aria-label="Screen, request or key"
        aria-expanded="true"
        aria-controls={list}
        aria-activedescendant={current ? `${list}-${current.id}` : undefined}
        placeholder="Screen, request id or key id"
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value);
          setChosen(0);
        }}
        onKeyDown={onKey}
      />
      <div id={list} role="listbox" aria-label="Commands" className="mt-3 max-h-80 overflow-y-auto">
        {commands.map((command, index) => (
          <button
            key={command.id}
            id={`${list}-${command.id}`}
            type="button"
            role="option"
            tabIndex={-1}
            aria-selected={index === chosen}
            className="block w-full rounded-md px-3 py-2 text-left hover:bg-raised aria-selected:bg-tint aria-selected:text-accent"
            onClick={() => run(command)}
          >
            {command.label}
          </button>
        ))}
      </div>
      {commands.length === 0 ? <p className="px-3 text-muted">Nothing has this name.</p> : null}
    </>
  );
}

function useRun(onClose: () => void) {
  const navigate = useNavigate();
  return (command: Command) => {
    onClose();
    const { to } = command;
    if ("theme" in to) {
      setTheme(to.theme);
      return;
    }
    const params = { requestId: to.id ?? "", keyId: to.id ?? "" };
    navigate({ to: to.path, params });
  };
}
