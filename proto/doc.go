// Package proto holds the words on the wire: the messages of norn/v1 (generated
// into nornv1), the kinds of errors, the limits, and the checks that every
// request passes before it has any effect.
//
// Evolution: fields and numbers are only added, never reused; unknown fields
// of requests are left out; both sides name the range of versions they speak in Hello.
package proto
