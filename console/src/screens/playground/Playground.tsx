import { Empty } from "@/components/Notice";
import { Screen } from "@/components/Screen";

export function Playground() {
  return (
    <Screen title="Playground">
      <Empty title="Nothing here yet." />
    </Screen>
  );
}
