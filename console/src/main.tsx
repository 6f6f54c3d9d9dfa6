import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { takeLinkToken } from "./app/linkToken";
import { createQueryClient } from "./app/queries";
import { router } from "./app/router";
import { LinkTokenContext } from "./app/SignInLink";
import { applyTheme } from "./app/theme";
import "./app/styles.css";

applyTheme();
const linkToken = takeLinkToken(window.location, window.history);
const host = document.getElementById("root");
if (host) {
  createRoot(host).render(
    <StrictMode>
      <QueryClientProvider client={createQueryClient()}>
        <LinkTokenContext value={linkToken}>
          <RouterProvider router={router} />
        </LinkTokenContext>
      </QueryClientProvider>
    </StrictMode>,
  );
}
