import { Empty } from "@/components/Notice";
import { Screen } from "@/components/Screen";

export function KeyPage() {
  return (
    <Screen title="Key">
      <Empty title="Nothing here yet." />
    </Screen>
  );
}
