import { expect, it } from "vitest";
import { commandsFor } from "./commands";
import { navFor } from "./nav";

const rights = { read: true, operate: false, configure: false, generate: false, read_payloads: false };
const api = { same_origin: true, listen: "127.0.0.1:4000", public_url: null };

it("offers only screens that the session can use", () => {
  const labels = (session: Parameters<typeof navFor>[0]) =>
    navFor(session).flatMap((group) => group.items.map((item) => item.label));
  expect(labels({ rights, api })).not.toContain("Playground");
  expect(labels({ rights: { ...rights, read: false, generate: true }, api })).toEqual([
    "Models",
    "Playground",
    "Client set-up",
    "API reference",
    "My key",
  ]);
  const apart = labels({ rights: { ...rights, generate: true }, api: { ...api, same_origin: false } });
  expect(apart).not.toContain("My key");
  expect(apart).toContain("Playground");
});

it("finds screens by parts of their names, and pages by ids", () => {
  const labels = (typed: string) => commandsFor({ rights, api }, typed).map((command) => command.label);
  expect(labels("prov rout")).toEqual(["Providers and routing"]);
  expect(labels("req_01m87x")).toEqual(["Open request req_01m87x"]);
  expect(labels("sk-gw-amhIDIC7JN")).toEqual(["Open key sk-gw-amhIDI"]);
});
