/** Takes the one-time token of a sign-in link out of the address, so that it is in no history and no screenshot. */
export function takeLinkToken(location: Location, history: History): string | undefined {
  const token = new URLSearchParams(location.hash.replace(/^#/, "")).get("token");
  if (token === null || token === "") return undefined;
  history.replaceState(history.state, "", location.pathname + location.search);
  return token;
}
