// Package web serves a node's HTTP port: /livez, /readyz and /metrics. It knows
// the node by the small [Backend] interface only.
package web
