import { Empty } from "@/components/Notice";
import { Screen } from "@/components/Screen";

export function Models() {
  return (
    <Screen title="Models">
      <Empty title="Nothing here yet." />
    </Screen>
  );
}
