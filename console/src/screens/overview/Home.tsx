import { Empty } from "@/components/Notice";
import { Screen } from "@/components/Screen";

export function Home() {
  return (
    <Screen title="Overview">
      <Empty title="Nothing here yet." />
    </Screen>
  );
}
