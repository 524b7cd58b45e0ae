// A client of the HTTP API, for browsers too: typed by /openapi.json, over fetch.

import createClient, { type Client } from "openapi-fetch";

import type { components, paths } from "./http-types.js";

export type { components, paths };

/** Schemas of the API, such as Schemas["Task"]. */
export type Schemas = components["schemas"];

export interface HttpOptions {
  /** Of a node, such as https://norn.example.com; "" in a page that the node serves. */
  baseUrl?: string;
  /** Sent as Authorization: Bearer. */
  authToken?: string;
  /** Instead of the global one. */
  fetch?: (request: Request) => Promise<Response>;
}

/** Makes a client of the HTTP API: `await client.GET("/api/v1/queues")` gives data or error, as /openapi.json types them. */
export function httpClient(o: HttpOptions = {}): Client<paths> {
  return createClient<paths>({
    baseUrl: o.baseUrl ?? "",
    ...(o.authToken && { headers: { Authorization: `Bearer ${o.authToken}` } }),
    ...(o.fetch && { fetch: o.fetch }),
  });
}
