// Package agenda keeps schedules sorted by when they wake (G2).
//
// A cron master takes the first while its time has come, decides about it, and
// sets it to when it wakes next. Replicas keep theirs up to date as commits
// arrive, so that a successor has nothing to load (G32). Setting and removing
// cost the logarithm of the number of schedules.
//
// Its size is that of the schedules there are; their number is limited where
// they are created.
package agenda
