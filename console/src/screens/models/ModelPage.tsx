import { Empty } from "@/components/Notice";
import { Screen } from "@/components/Screen";

export function ModelPage() {
  return (
    <Screen title="Model">
      <Empty title="Nothing here yet." />
    </Screen>
  );
}
