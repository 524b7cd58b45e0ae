// Package viaproxy lets connections through proxies have the address of who sent them.
//
// Contract. [Listen] gives the connections of a listener. One that comes from a trusted
// address and begins with a header of the PROXY protocol, version 1 or 2, is given once
// that is read, and its RemoteAddr is the client that the header names; without a header, or
// with one that names nobody, it is as it came. From any other address nothing is read
// here. Who says half a header, or a malformed one, is closed and logged.
package viaproxy
