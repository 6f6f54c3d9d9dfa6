import { Empty } from "@/components/Notice";
import { Screen } from "@/components/Screen";

export function Configuration() {
  return (
    <Screen title="Configuration">
      <Empty title="Nothing here yet." />
    </Screen>
  );
}
