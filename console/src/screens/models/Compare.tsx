import { Empty } from "@/components/Notice";
import { Screen } from "@/components/Screen";

export function Compare() {
  return (
    <Screen title="Compare models">
      <Empty title="Nothing here yet." />
    </Screen>
  );
}
