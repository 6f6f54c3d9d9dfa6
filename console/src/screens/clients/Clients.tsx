import { Empty } from "@/components/Notice";
import { Screen } from "@/components/Screen";

export function Clients() {
  return (
    <Screen title="Client set-up">
      <Empty title="Nothing here yet." />
    </Screen>
  );
}
