import { type ErrorComponentProps, Link } from "@tanstack/react-router";
import { Button } from "@/components/Button";
import { Notice } from "@/components/Notice";
import { Screen } from "@/components/Screen";

export function NotFound() {
  return (
    <Screen title="No such page">
      <p>
        The address leads to no screen of the console.{" "}
        <Link to="/" className="link">
          Go to the overview
        </Link>
        .
      </p>
    </Screen>
  );
}

/** What stands in the place of a screen that broke, or whose script is gone because the gateway was upgraded. */
export function ScreenError({ error }: ErrorComponentProps) {
  return (
    <Screen title="This screen cannot be shown">
      <Notice look="bad">{error instanceof Error ? error.message : String(error)}</Notice>
      <p>If the gateway was upgraded while this page was open, load the page again.</p>
      <div>
        <Button look="primary" onClick={() => window.location.reload()}>
          Load the page again
        </Button>
      </div>
    </Screen>
  );
}
