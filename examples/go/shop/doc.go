// Command shop is a service that takes orders over HTTP and mails about each of them, whatever
// crashes in between: an order and its task are one transaction (an outbox), a relay brings the
// task to Norn, a worker does it.
package main
