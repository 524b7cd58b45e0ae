// Package nornv1 is the generated code of the messages in this directory.
// The .proto files are the documentation; `make proto` regenerates the rest.
package nornv1
