// Package systems reads jobs that the real systems have written: asynq into a redis-server,
// River into a PostgreSQL, Sidekiq into a redis-server. It is a module of its own: nothing of
// Norn needs them. What is not on this machine is NOT RUN.
package systems
