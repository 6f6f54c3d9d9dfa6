import { Link } from "@tanstack/react-router";
import { useSignedIn } from "@/api/session";
import { Empty } from "@/components/Notice";
import { Screen } from "@/components/Screen";
import { Session } from "./Session";

/** Sends messages to one to four models side by side. */
export function Playground() {
  const { rights, role, api } = useSignedIn();
  if (!api.same_origin) {
    return (
      <Screen title="Playground">
        <Empty title="The playground cannot reach the API from here.">
          <p>
            This console is on the management listener (<code>server.admin_listen</code>), and the API is at{" "}
            {api.listen}. A session counts for its own address only. Call the API with a key there, or serve
            both at one address.
          </p>
          <Link to="/clients" className="link">
            Set up a client
          </Link>
        </Empty>
      </Screen>
    );
  }
  if (!rights.generate) {
    return (
      <Screen title="Playground">
        <Empty title={`A key of the role ${role} may not generate.`}>
          <p>It reads the management API. Sign in with a key of the role inference, operator or admin.</p>
          <Link to="/keys" className="link">
            See the keys
          </Link>
        </Empty>
      </Screen>
    );
  }
  return <Session />;
}
