// Package health is `norn healthcheck`: an image without a shell or curl asks the HTTP port
// of its own node whether the process lives.
package health
