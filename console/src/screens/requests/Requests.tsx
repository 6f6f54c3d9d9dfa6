import { Empty } from "@/components/Notice";
import { Screen } from "@/components/Screen";

export function Requests() {
  return (
    <Screen title="Requests">
      <Empty title="Nothing here yet." />
    </Screen>
  );
}
