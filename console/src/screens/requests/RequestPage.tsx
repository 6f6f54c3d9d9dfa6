import { Empty } from "@/components/Notice";
import { Screen } from "@/components/Screen";

export function RequestPage() {
  return (
    <Screen title="Request">
      <Empty title="Nothing here yet." />
    </Screen>
  );
}
