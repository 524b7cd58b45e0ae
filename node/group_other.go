//go:build !unix

package node

// FollowGroup does nothing: there are no groups in the modes of files.
func FollowGroup(...string) {}
