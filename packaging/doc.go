// Package packaging holds what a release is made of beside the program: the deb and the rpm,
// the OCI image, compose.yaml, the Helm chart; and the tests of all of them. It is a module of
// its own, so that who imports the client gets none of its tools.
package packaging
