import { type ChangeEvent, type FormEvent, type KeyboardEvent, useRef } from "react";
import { Button } from "@/components/Button";
import { TextArea, TextField } from "@/components/Field";

export interface Message {
  text: string;
  images: readonly string[];
  times: number;
}

interface ComposerProps {
  message: Message;
  onChange: (message: Message) => void;
  onSend: () => void;
  onStop: () => void;
  isRunning: boolean;
  /** The models that are asked. */
  models: readonly string[];
}

const MOST_TIMES = 20;

function asDataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

/** Where a message is written. Enter with Ctrl (on a Mac ⌘) sends it. */
export function Composer({ message, onChange, onSend, onStop, isRunning, models }: ComposerProps) {
  const files = useRef<HTMLInputElement>(null);
  const isEmpty = message.text.trim() === "" && message.images.length === 0;
  const maySend = !isEmpty && !isRunning && models.every((model) => model !== "");

  function submit(event: FormEvent) {
    event.preventDefault();
    if (maySend) onSend();
  }

  function onKey(event: KeyboardEvent<HTMLTextAreaElement>) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
  }

  async function attach(event: ChangeEvent<HTMLInputElement>) {
    const chosen = [...(event.target.files ?? [])].filter((file) => file.type.startsWith("image/"));
    event.target.value = "";
    const urls = await Promise.all(chosen.map(asDataUrl));
    onChange({ ...message, images: [...new Set([...message.images, ...urls])] });
  }

  return (
    <form onSubmit={submit} className="card flex flex-col gap-2 p-3">
      <TextArea
        label="Message"
        hint="Enter with Ctrl (on a Mac ⌘) sends it."
        rows={3}
        value={message.text}
        onKeyDown={onKey}
        onChange={(event) => onChange({ ...message, text: event.target.value })}
      />
      {message.images.length > 0 ? (
        <ul className="flex flex-wrap gap-2">
          {message.images.map((url, index) => (
            <li key={url} className="flex flex-col items-center gap-1">
              <img src={url} alt={`Attached, ${index + 1}`} className="h-16 rounded" />
              <button
                type="button"
                className="link text-xs"
                onClick={() =>
                  onChange({ ...message, images: message.images.filter((other) => other !== url) })
                }
              >
                Remove image {index + 1}
              </button>
            </li>
          ))}
        </ul>
      ) : null}
      <div className="flex flex-wrap items-end gap-2">
        <Button type="submit" look="primary" disabled={!maySend}>
          Send
        </Button>
        <Button onClick={onStop} disabled={!isRunning}>
          Stop
        </Button>
        <input
          ref={files}
          type="file"
          accept="image/*"
          multiple
          hidden
          aria-label="Images"
          onChange={attach}
        />
        <Button onClick={() => files.current?.click()}>Add images</Button>
        <TextField
          label="Times"
          type="number"
          min={1}
          max={MOST_TIMES}
          className="w-20"
          value={message.times}
          onChange={(event) => {
            const times = Math.trunc(Number(event.target.value)) || 1;
            onChange({ ...message, times: Math.min(Math.max(times, 1), MOST_TIMES) });
          }}
        />
        {message.times * models.length > 1 ? (
          <span className="pb-2 text-muted">Sends {message.times * models.length} requests.</span>
        ) : null}
      </div>
    </form>
  );
}
