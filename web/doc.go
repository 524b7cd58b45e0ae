// Package web serves a node's HTTP port: the API under /api/v1 with its
// /openapi.json, /livez, /readyz and /metrics, and at / the dashboard: files of the
// directory pages, which run in the browser and use nothing but the API
// (docs/how-to/dashboard.md; the directory browser has their test). It knows the node by the
// small [Backend] interface only.
//
// The API is the wire in other clothes: each route is one method of the wire
// (docs/reference/http.md has the table, routes.go is it), its request and its answer are
// the messages of proto/norn/v1 in the form of proto/jsonform, and they go
// through the same limits and the same core as those of the client port. What is
// decided here is only what HTTP adds, always in this order and before anything
// has an effect: who is asking and from where, path, verb, type, size, form.
package web
