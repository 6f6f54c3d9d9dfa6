declare module "swagger-ui-dist/swagger-ui-es-bundle.js" {
  interface SwaggerRequest {
    method: string;
    headers: Record<string, string>;
    credentials?: RequestCredentials;
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
    plugins?: (() => object)[];
    onComplete?: () => void;
  }
  export default function SwaggerUI(options: SwaggerOptions): unknown;
}
