import { createContext, useContext, useEffect, useRef } from "react";
import { useSignIn } from "@/api/session";

/** The token of the sign-in link that opened this page. */
export const LinkTokenContext = createContext<string | undefined>(undefined);

/** Signs in with the link's token, once. The page shows a refusal, because a link works only once. */
export function useSignInLink() {
  const token = useContext(LinkTokenContext);
  const signIn = useSignIn();
  const isSent = useRef(false);
  const { mutate } = signIn;
  useEffect(() => {
    if (token === undefined || isSent.current) return;
    isSent.current = true;
    mutate({ token });
  }, [token, mutate]);
  const isOpen = token !== undefined && !signIn.isSuccess && !signIn.isError;
  return { isSigningIn: isOpen, error: signIn.error };
}
