import { useState } from "react";
import { Button } from "@/components/Button";
import { EMPTY_LIMITS, limitsBody } from "./form";
import { usePutTeam } from "./mutations";
import { TeamFormDialog } from "./TeamFormDialog";

/** Makes a team. */
export function CreateTeam() {
  const [isOpen, setOpen] = useState(false);
  const put = usePutTeam();
  return (
    <>
      <Button look="primary" onClick={() => setOpen(true)}>
        Create team
      </Button>
      {isOpen ? (
        <TeamFormDialog
          title="Create a team"
          action="Create"
          initial={EMPTY_LIMITS}
          isBusy={put.isPending}
          error={put.error}
          onSubmit={(id, form) =>
            put.mutate({ id, limits: limitsBody(form) }, { onSuccess: () => setOpen(false) })
          }
          onClose={() => setOpen(false)}
        />
      ) : null}
    </>
  );
}
