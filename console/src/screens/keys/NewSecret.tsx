import { Link } from "@tanstack/react-router";
import { Button } from "@/components/Button";
import { Copy } from "@/components/Copy";
import { Dialog } from "@/components/Dialog";
import { useOfferKey } from "../clients/newKey";

interface NewSecretProps {
  name: string;
  secret: string;
  onClose: () => void;
}

/** A secret that the gateway shows once, because it stores only its hash. */
export function NewSecret({ name, secret, onClose }: NewSecretProps) {
  const offer = useOfferKey();
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
      <div className="mt-4 flex flex-wrap items-center justify-end gap-2">
        <Link to="/clients" className="link mr-auto" onClick={() => offer(secret)}>
          Set up a client with it
        </Link>
        <Copy label="Copy the key" text={secret} look="primary" />
        <Button onClick={onClose}>Done</Button>
      </div>
    </Dialog>
  );
}
