// Package storetest holds every [store.Store] to the contract of package
// store, crashes included.
package storetest
