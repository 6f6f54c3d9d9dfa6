import { Empty } from "@/components/Notice";
import { Screen } from "@/components/Screen";

export function Providers() {
  return (
    <Screen title="Providers and routing">
      <Empty title="Nothing here yet." />
    </Screen>
  );
}
