// Package outboxes is the command norn outbox: relay tasks out of a database, and look after its
// table.
package outboxes
