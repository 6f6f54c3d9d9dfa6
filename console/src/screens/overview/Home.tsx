import { Navigate } from "@tanstack/react-router";
import { useSignedIn } from "@/api/session";
import { OverviewScreen } from "./Overview";

/** The first screen: the overview, or the own key of somebody who may see nothing else. */
export function Home() {
  const { rights, api } = useSignedIn();
  if (rights.read) return <OverviewScreen />;
  return <Navigate to={api.same_origin ? "/me" : "/clients"} replace />;
}
