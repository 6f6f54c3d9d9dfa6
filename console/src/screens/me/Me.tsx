import { Empty } from "@/components/Notice";
import { Screen } from "@/components/Screen";

export function Me() {
  return (
    <Screen title="My key">
      <Empty title="Nothing here yet." />
    </Screen>
  );
}
