import { Button } from "@/components/Button";
import { Copy } from "@/components/Copy";
import { Dialog } from "@/components/Dialog";

interface NewSecretProps {
  name: string;
  secret: string;
  onClose: () => void;
}

/** A secret that the gateway shows once, because it stores only its hash. */
export function NewSecret({ name, secret, onClose }: NewSecretProps) {
  return (
    <Dialog
      title={`The key of ${name}`}
      description="It is shown only now. The gateway keeps its hash. Copy it before you close this."
      isOpen
      onClose={onClose}
    >
      <code className="code block" data-secret="">
        {secret}
      </code>
      <div className="mt-4 flex items-center justify-end gap-2">
        <Copy label="Copy the key" text={secret} look="primary" />
        <Button onClick={onClose}>Done</Button>
      </div>
    </Dialog>
  );
}
