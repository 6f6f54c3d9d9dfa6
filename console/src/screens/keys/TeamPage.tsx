import { Empty } from "@/components/Notice";
import { Screen } from "@/components/Screen";

export function TeamPage() {
  return (
    <Screen title="Team">
      <Empty title="Nothing here yet." />
    </Screen>
  );
}
