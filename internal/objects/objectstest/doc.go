// Package objectstest is an S3 server in memory for tests: it checks signatures
// and conditions of writes, and can be told to fail.
package objectstest
