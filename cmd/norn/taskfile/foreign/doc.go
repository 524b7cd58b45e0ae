// Package foreign reads the jobs that wait in other systems, in the form in which those keep
// them: asynq (Redis, protobuf), River (PostgreSQL, table river_job) and Sidekiq (Redis,
// JSON). It only reads. Their workers have to be stopped: what they are at is read as if it
// waited.
package foreign
