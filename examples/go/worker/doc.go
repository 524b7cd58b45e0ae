// Command worker greets whoever the tasks of the queue "greetings" name, until
// Ctrl-C.
package main
