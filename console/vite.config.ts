import { fileURLToPath } from "node:url";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// `npm run dev` shows the pages at /ui/ and passes everything else on to this gateway.
const gateway = process.env.GATEWAY_URL ?? "http://127.0.0.1:4000";
const passedOn = ["/v1", "/admin", "/auth", "/openapi.json", "/metrics", "/healthz", "/readyz"];

export default defineConfig(({ command }) => ({
  // Relative addresses: the console works under every path prefix.
  base: command === "build" ? "./" : "/ui/",
  plugins: [react(), tailwindcss()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  server: {
    proxy: Object.fromEntries(passedOn.map((path) => [path, { target: gateway, changeOrigin: false }])),
  },
  build: {
    target: ["chrome123", "firefox120", "safari17.5"],
    // The content security policy allows neither data: addresses nor inline scripts and styles.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    // The licences of everything that is bundled are served beside it.
    license: { fileName: "licenses.txt" },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1000,
  },
  test: { environment: "jsdom", include: ["src/**/*.test.{ts,tsx}"] },
}));
