import { Empty } from "@/components/Notice";
import { Screen } from "@/components/Screen";

export function Reference() {
  return (
    <Screen title="API reference">
      <Empty title="Nothing here yet." />
    </Screen>
  );
}
