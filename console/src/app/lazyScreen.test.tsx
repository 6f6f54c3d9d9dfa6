import { act, cleanup, fireEvent, render, screen } from "@testing-library/react";
import { Suspense } from "react";
import { afterEach, expect, it, vi } from "vitest";
import { lazyScreen } from "./lazyScreen";

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

function Keys() {
  return <h1>Keys</h1>;
}

it("keeps the console while the gateway is down, and loads the screen when it is back", async () => {
  let isUp = false;
  vi.stubGlobal("fetch", async () => {
    throw new TypeError("Failed to fetch");
  });
  const Screen = lazyScreen(async () => {
    if (!isUp) throw new TypeError("Failed to fetch dynamically imported module: /ui/assets/Keys.js");
    return { Keys };
  }, "Keys");
  const shown = (
    <Suspense>
      <Screen />
    </Suspense>
  );
  const page = await act(async () => render(shown));
  await screen.findByText("The gateway does not answer.");
  isUp = true;
  fireEvent.click(screen.getByRole("button", { name: "Repeat" }));
  await screen.findByRole("heading", { name: "Keys" });
  page.rerender(null);
  page.rerender(shown);
  expect(screen.getByRole("heading", { name: "Keys" })).toBeTruthy();
});
