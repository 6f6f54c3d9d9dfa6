import { createRootRoute, createRoute } from "@tanstack/react-router";
import { auditSearch } from "@/screens/audit/search";
import { budgetsSearch } from "@/screens/budgets/search";
import { configurationSearch } from "@/screens/configuration/search";
import { guardsSearch } from "@/screens/guards/search";
import { keysSearch } from "@/screens/keys/search";
import { modelsSearch } from "@/screens/models/search";
import { overviewSearch } from "@/screens/overview/search";
import { playgroundSearch } from "@/screens/playground/search";
import { providersSearch } from "@/screens/providers/search";
import { requestsSearch } from "@/screens/requests/search";
import { NotFound, ScreenError } from "./Fallbacks";
import { Layout } from "./Layout";
import { lazyScreen } from "./lazyScreen";
import { texts } from "./urlState";

const root = createRootRoute({ component: Layout, notFoundComponent: NotFound, errorComponent: ScreenError });

const under = <const Path extends string>(path: Path) => ({ getParentRoute: () => root, path });

const overview = createRoute({
  ...under("/"),
  validateSearch: overviewSearch,
  component: lazyScreen(() => import("@/screens/overview/Home"), "Home"),
});
const requests = createRoute({
  ...under("/requests"),
  validateSearch: requestsSearch,
  component: lazyScreen(() => import("@/screens/requests/Requests"), "Requests"),
});
const request = createRoute({
  ...under("/requests/$requestId"),
  component: lazyScreen(() => import("@/screens/requests/RequestPage"), "RequestPage"),
});
const keys = createRoute({
  ...under("/keys"),
  validateSearch: keysSearch,
  component: lazyScreen(() => import("@/screens/keys/Keys"), "Keys"),
});
const key = createRoute({
  ...under("/keys/$keyId"),
  component: lazyScreen(() => import("@/screens/keys/KeyPage"), "KeyPage"),
});
const team = createRoute({
  ...under("/teams/$teamId"),
  component: lazyScreen(() => import("@/screens/keys/TeamPage"), "TeamPage"),
});
const me = createRoute({
  ...under("/me"),
  component: lazyScreen(() => import("@/screens/me/Me"), "Me"),
});
const providers = createRoute({
  ...under("/providers"),
  validateSearch: providersSearch,
  component: lazyScreen(() => import("@/screens/providers/Providers"), "Providers"),
});
const configuration = createRoute({
  ...under("/configuration"),
  validateSearch: configurationSearch,
  component: lazyScreen(() => import("@/screens/configuration/Configuration"), "Configuration"),
});

// Each of these screens defines what it keeps in the address in its own folder, as the ones above do.
const models = createRoute({
  ...under("/models"),
  validateSearch: modelsSearch,
  component: lazyScreen(() => import("@/screens/models/Models"), "Models"),
});
const compare = createRoute({
  ...under("/models/compare"),
  validateSearch: (search) => texts(search, ["models"]),
  component: lazyScreen(() => import("@/screens/models/Compare"), "Compare"),
});
const model = createRoute({
  ...under("/models/$modelId"),
  component: lazyScreen(() => import("@/screens/models/ModelPage"), "ModelPage"),
});
const playground = createRoute({
  ...under("/playground"),
  validateSearch: playgroundSearch,
  component: lazyScreen(() => import("@/screens/playground/Playground"), "Playground"),
});
const clients = createRoute({
  ...under("/clients"),
  validateSearch: (search) => texts(search, ["client", "model"]),
  component: lazyScreen(() => import("@/screens/clients/Clients"), "Clients"),
});
const reference = createRoute({
  ...under("/reference"),
  component: lazyScreen(() => import("@/screens/reference/Reference"), "Reference"),
});
const budgets = createRoute({
  ...under("/budgets"),
  validateSearch: budgetsSearch,
  component: lazyScreen(() => import("@/screens/budgets/Budgets"), "Budgets"),
});
const guards = createRoute({
  ...under("/guards"),
  validateSearch: guardsSearch,
  component: lazyScreen(() => import("@/screens/guards/Guards"), "Guards"),
});
const cache = createRoute({
  ...under("/cache"),
  component: lazyScreen(() => import("@/screens/cache/Cache"), "Cache"),
});
const audit = createRoute({
  ...under("/audit"),
  validateSearch: auditSearch,
  component: lazyScreen(() => import("@/screens/audit/Audit"), "Audit"),
});

export const routeTree = root.addChildren([
  overview,
  requests,
  request,
  keys,
  key,
  team,
  me,
  providers,
  configuration,
  models,
  compare,
  model,
  playground,
  clients,
  reference,
  budgets,
  guards,
  cache,
  audit,
]);
