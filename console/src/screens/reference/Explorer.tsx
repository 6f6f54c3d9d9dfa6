import { useEffect, useRef } from "react";
import styles from "swagger-ui-dist/swagger-ui.css?url";
import SwaggerUI, {
  type SwaggerLayoutProps,
  type SwaggerSystem,
} from "swagger-ui-dist/swagger-ui-es-bundle.js";
import { gatewayRoot } from "@/app/places";
import { onThemeChange } from "@/app/theme";
import { asSession, forSession } from "./document";
import "./reference.css";

/** The style sheet of the renderer, which only this screen loads. */
function loadStyles(): void {
  const id = "reference-styles";
  if (document.getElementById(id)) return;
  const link = document.createElement("link");
  link.id = id;
  link.rel = "stylesheet";
  link.href = styles;
  document.head.prepend(link);
}

/** The renderer has dark colours below this class of the document. */
function followTheme(): () => void {
  const { classList } = document.documentElement;
  const follow = () => classList.toggle("dark-mode", isDark());
  follow();
  const stop = onThemeChange(follow);
  return () => {
    stop();
    classList.remove("dark-mode");
  };
}

function isDark(): boolean {
  const theme = document.documentElement.dataset.theme;
  return theme === "dark" || (theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
}

/** The renderer's parts without those that the console shows itself: the address, the description, the sign-in. */
function layout({ React }: SwaggerSystem): object {
  // biome-ignore lint/correctness/noComponentHookFactories: it is made once, with the renderer's own React
  function ConsoleLayout({ getComponent }: SwaggerLayoutProps) {
    const part = (name: string, isConnected = false) => React.createElement(getComponent(name, isConnected));
    return React.createElement(
      "div",
      { className: "swagger-ui" },
      part("SvgAssets"),
      part("errors", true),
      React.createElement("div", { className: "wrapper" }, part("operations", true), part("Models", true)),
    );
  }
  return { components: { ConsoleLayout } };
}

/** What the renderer leaves out: names of its fields, and a keyboard's way into what scrolls. */
function name(host: HTMLElement): void {
  for (const field of host.querySelectorAll("textarea:not([aria-label])")) {
    field.setAttribute("aria-label", "Request body");
  }
  for (const code of host.querySelectorAll(".highlight-code pre:not([tabindex]), pre.curl:not([tabindex])")) {
    code.setAttribute("tabindex", "0");
  }
}

/** An OpenAPI document with its operations, schemas, examples and a form to try each of them. */
export default function Explorer({ spec }: { spec: Record<string, unknown> }) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const domNode = document.createElement("div");
    host.current?.append(domNode);
    loadStyles();
    const watcher = new MutationObserver(() => name(domNode));
    watcher.observe(domNode, { childList: true, subtree: true });
    const stop = followTheme();
    SwaggerUI({
      spec: forSession(spec, gatewayRoot.href),
      domNode,
      docExpansion: "list",
      defaultModelsExpandDepth: 0,
      deepLinking: false,
      validatorUrl: null,
      // Its colours are too dark to be read.
      syntaxHighlight: { activated: false },
      requestInterceptor: asSession,
      layout: "ConsoleLayout",
      plugins: [layout],
    });
    return () => {
      stop();
      watcher.disconnect();
      domNode.remove();
    };
  }, [spec]);
  return <div ref={host} className="reference card p-2" />;
}
