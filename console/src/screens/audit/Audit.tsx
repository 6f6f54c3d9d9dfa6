import { Empty } from "@/components/Notice";
import { Screen } from "@/components/Screen";

export function Audit() {
  return (
    <Screen title="Audit">
      <Empty title="Nothing here yet." />
    </Screen>
  );
}
