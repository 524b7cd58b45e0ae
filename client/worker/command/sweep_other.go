//go:build !unix || solaris || aix

package command

// occupy does nothing: here nothing is swept.
func occupy(string) (leave func()) { return func() {} }

// abandoned: who occupies a directory cannot be known.
func abandoned(string) bool { return false }
