// Package held keeps snapshots of a store for reads that come one after the other and are
// to see the same: the pages of a backup.
//
// A snapshot keeps the store from clearing away what is old. So there are no more than
// [Most], and one that nobody reads is closed after [Idle]; a read that comes later is
// given a new one.
package held
