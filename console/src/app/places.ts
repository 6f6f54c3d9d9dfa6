const script = import.meta.url;

/** The address of the console, which ends in a slash. The built scripts are in `assets/` below it. */
export const consoleRoot = import.meta.env.DEV
  ? new URL("/ui/", window.location.href)
  : new URL("../", script);

/** The address of the gateway, which ends in a slash: the folder above the console's. */
export const gatewayRoot = new URL("../", consoleRoot);

/** The base URL that clients of the API are given, without a slash at its end. */
export const apiBase = new URL("v1", gatewayRoot).href;
