// Package schedules is the command norn schedule: launch tasks at instants.
package schedules
