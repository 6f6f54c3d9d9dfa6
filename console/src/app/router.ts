import { createRouter } from "@tanstack/react-router";
import { consoleRoot } from "./places";
import { routeTree } from "./routes";
import { parseSearch, stringifySearch } from "./urlState";

export const router = createRouter({
  routeTree,
  basepath: consoleRoot.pathname,
  defaultPreload: "intent",
  scrollRestoration: true,
  parseSearch,
  stringifySearch,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
