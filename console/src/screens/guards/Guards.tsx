import { Empty } from "@/components/Notice";
import { Screen } from "@/components/Screen";

export function Guards() {
  return (
    <Screen title="Guards and sessions">
      <Empty title="Nothing here yet." />
    </Screen>
  );
}
