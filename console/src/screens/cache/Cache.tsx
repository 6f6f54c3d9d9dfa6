import { Empty } from "@/components/Notice";
import { Screen } from "@/components/Screen";

export function Cache() {
  return (
    <Screen title="Cache">
      <Empty title="Nothing here yet." />
    </Screen>
  );
}
