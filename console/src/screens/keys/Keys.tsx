import { Empty } from "@/components/Notice";
import { Screen } from "@/components/Screen";

export function Keys() {
  return (
    <Screen title="Keys and teams">
      <Empty title="Nothing here yet." />
    </Screen>
  );
}
