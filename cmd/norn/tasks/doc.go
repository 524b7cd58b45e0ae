// Package tasks is the command norn task: enqueue, read, claim, finish, cancel and retry tasks.
package tasks
