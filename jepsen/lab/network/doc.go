// Package network joins the nodes of a laboratory, and cuts, delays and loses what
// goes between them.
//
//   - [Network] has two kinds: a network namespace for each node with packet filters
//     (netns.go), and a proxy on loopback that every link goes through, TCP and UDP
//     (proxy*.go). Only the proxy delays, repeats and reorders.
//   - A [Link] is one way, from a node or this process to another ([Way]).
//   - [Wires] joins programs that a test starts by itself.
//   - Ports on loopback are drawn from those that the system gives to nobody (ports.go).
package network
