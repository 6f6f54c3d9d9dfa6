import { QueryClientProvider, useQuery } from "@tanstack/react-query";
import {
  createMemoryHistory,
  createRootRoute,
  createRoute,
  createRouter,
  RouterProvider,
} from "@tanstack/react-router";
import { act, cleanup, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { apiUrl, bodyOf, client } from "@/api/client";
import { useSignedIn } from "@/api/session";
import { Loaded } from "@/components/Loaded";
import { useOfferedKey } from "@/screens/clients/newKey";
import { Layout } from "./Layout";
import { createQueryClient } from "./queries";

const NOBODY = {
  object: "session",
  signed_in: false,
  ways: { key: true, link: true, oidc: null },
  host: "127.0.0.1",
  host_is_known: true,
  can_keep_cookie: true,
  advice: null,
};
const rights = { read: true, operate: true, configure: true, generate: true, read_payloads: true };
const api = { same_origin: true, listen: "127.0.0.1:4000", public_url: null };
const sessionOf = (id: string) => ({
  ...NOBODY,
  ...{ signed_in: true, kind: "key", id, name: id, role, team: null, rights, api },
});

/** The client takes the `fetch` of the moment in which it is loaded. */
const browser = vi.hoisted(() => {
  const calls = { answer: async (_request: Request): Promise<Response> => Response.error() };
  globalThis.fetch = (request) => calls.answer(request as Request);
  return calls;
});

/** Whose session the gateway knows. */
let holder: string | null = "boss";
let role = "admin";
let areKeysOpen = true;
let queries = createQueryClient();

async function gateway(request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  if (pathname === "/auth/logout") holder = null;
  if (pathname === "/auth/key") holder = (await request.json()).key;
  if (pathname.startsWith("/auth/")) return Response.json(holder ? sessionOf(holder) : NOBODY);
  const error = { message: "No key.", code: "invalid_api_key" };
  if (holder && !areKeysOpen) return new Promise(() => {});
  return holder ? Response.json({ data: [holder] }) : Response.json({ error }, { status: 401 });
}

/** A screen with a form that stands beside what was read. */
function Form() {
  const { name } = useSignedIn();
  const offered = useOfferedKey();
  const read = useQuery({ queryKey: ["keys"], queryFn: () => bodyOf(client.GET("/admin/v1/keys")) });
  return (
    <Loaded query={read} what="the keys">
      {() => (
        <>
          <title>Form · Model Gateway</title>
          <input aria-label="Note" />
          <p>Read as {name}</p>
          {offered ? <code>{offered}</code> : null}
          <button type="button" onClick={() => read.refetch()}>
            Read
          </button>
        </>
      )}
    </Loaded>
  );
}

function show(): void {
  const root = createRootRoute({ component: Layout });
  const form = createRoute({ getParentRoute: () => root, path: "/", component: Form });
  const history = createMemoryHistory({ initialEntries: ["/"] });
  const router = createRouter({ routeTree: root.addChildren([form]), history });
  render(
    <QueryClientProvider client={queries}>
      {/* biome-ignore lint/suspicious/noExplicitAny: the types know the console's router only */}
      <RouterProvider router={router as any} />
    </QueryClientProvider>,
  );
}

async function write(text: string): Promise<void> {
  fireEvent.change(await screen.findByLabelText("Note"), { target: { value: text } });
}

async function signIn(key: string): Promise<void> {
  fireEvent.change(await screen.findByLabelText("Key"), { target: { value: key } });
  fireEvent.click(screen.getByRole("button", { name: "Sign in" }));
  await screen.findByText(`Read as ${key}`);
}

function noteNow(): string {
  const field = screen.getByLabelText("Note");
  return field instanceof HTMLInputElement ? field.value : "no field";
}

beforeEach(() => {
  holder = "boss";
  role = "admin";
  areKeysOpen = true;
  queries = createQueryClient();
  browser.answer = gateway;
  vi.stubGlobal("scrollTo", () => {});
  vi.stubGlobal("matchMedia", () => ({ addEventListener() {}, removeEventListener() {} }));
});
afterEach(() => {
  cleanup();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it("says that a session has ended, hides its screen, and brings it back for the same key", async () => {
  show();
  await write("half a sentence");
  holder = null;
  fireEvent.click(screen.getByRole("button", { name: "Read" }));
  await screen.findByText(/^Your session has ended\. Sign in again\./);
  expect(screen.queryByRole("navigation")).toBeNull();
  expect(document.title).toBe("Sign in · Model Gateway");
  await signIn("boss");
  await waitFor(() => expect(screen.queryByRole("alert")).toBeNull());
  expect(noteNow()).toBe("half a sentence");
  expect(document.title).toBe("Form · Model Gateway");
  expect(screen.queryByText(/^Your session has ended/)).toBeNull();
});

it("gives nothing of an ended session to another key", async () => {
  show();
  await write("half a sentence");
  holder = null;
  fireEvent.click(screen.getByRole("button", { name: "Read" }));
  await screen.findByText(/^Your session has ended/);
  await signIn("other");
  expect(noteNow()).toBe("");
});

it("keeps nothing after a sign-out, and gives no reason", async () => {
  show();
  await write("half a sentence");
  fireEvent.click(screen.getByRole("button", { name: "Sign out" }));
  await screen.findByLabelText("Key");
  expect(screen.queryByText(/^Your session has ended/)).toBeNull();
  expect(screen.queryByLabelText("Note")).toBeNull();
  await signIn("boss");
  expect(noteNow()).toBe("");
});

it.each([
  ["another key", () => (holder = "other")],
  ["another role", () => (role = "viewer")],
])("shows nothing that was read when another tab brings the session of %s", async (_, change) => {
  show();
  await write("half a sentence");
  change();
  areKeysOpen = false;
  await queries.invalidateQueries({ queryKey: ["session"] });
  await waitFor(() => expect(screen.queryByLabelText("Note")).toBeNull());
  expect(queries.getQueryData(["keys"])).toBeUndefined();
  expect(screen.queryByRole("navigation")).not.toBeNull();
});

it("keeps nothing after a sign-out in another tab, and tells the other tabs of its own", async () => {
  const otherTab = new BroadcastChannel(`signed-out ${apiUrl("/auth/logout")}`);
  const told = vi.fn();
  otherTab.addEventListener("message", told);
  show();
  await write("half a sentence");
  holder = null;
  otherTab.postMessage(null);
  await screen.findByLabelText("Key");
  expect(screen.queryByText(/^Your session has ended/)).toBeNull();
  expect(screen.queryByLabelText("Note")).toBeNull();
  expect(queries.getQueryData(["keys"])).toBeUndefined();
  await signIn("boss");
  expect(noteNow()).toBe("");
  expect(told).not.toHaveBeenCalled();
  fireEvent.click(screen.getByRole("button", { name: "Sign out" }));
  await waitFor(() => expect(told).toHaveBeenCalledOnce());
  otherTab.close();
});

it("forgets the key just made when a session ends, and its screens after 30 minutes", async () => {
  vi.useFakeTimers({ toFake: ["Date", "setInterval", "clearInterval"] });
  show();
  await write("half a sentence");
  queries.setQueryData(["the key just made"], "sk-gw-secret");
  await screen.findByText("sk-gw-secret");
  holder = null;
  fireEvent.click(screen.getByRole("button", { name: "Read" }));
  await screen.findByText(/^Your session has ended/);
  await waitFor(() => expect(queries.getQueryData(["the key just made"])).toBeUndefined());
  act(() => void vi.advanceTimersByTime(29 * 60_000));
  expect(noteNow()).toBe("half a sentence");
  act(() => void vi.advanceTimersByTime(60_000));
  expect(screen.queryByLabelText("Note")).toBeNull();
  expect(queries.getQueryData(["keys"])).toBeUndefined();
});
