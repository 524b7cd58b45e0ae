// Command producer enqueues a greeting and waits until a worker has finished it.
package main
