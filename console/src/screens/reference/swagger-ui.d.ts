declare module "swagger-ui-dist/swagger-ui-es-bundle.js" {
  interface SwaggerRequest {
    method: string;
    headers: Record<string, string>;
    credentials?: RequestCredentials;
  }
  /** The renderer has a React of its own, whose elements are not those of ours. */
  export interface SwaggerSystem {
    React: { createElement: (type: unknown, props?: object | null, ...children: unknown[]) => object };
  }
  export interface SwaggerLayoutProps {
    getComponent: (name: string, isConnected?: boolean) => unknown;
  }
  interface SwaggerOptions {
    spec: object;
    domNode: HTMLElement;
    docExpansion?: "list" | "full" | "none";
    defaultModelsExpandDepth?: number;
    deepLinking?: boolean;
    validatorUrl?: null;
    syntaxHighlight?: { activated: boolean };
    requestInterceptor?: (request: SwaggerRequest) => SwaggerRequest;
    layout?: string;
    plugins?: ((system: SwaggerSystem) => object)[];
  }
  export default function SwaggerUI(options: SwaggerOptions): unknown;
}
